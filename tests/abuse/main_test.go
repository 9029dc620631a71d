// Package abuse_test lets rude clients loose on a lock server, and measures the others.
package abuse_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

var whole = flag.Bool("abuse", false, "measure with 1,000 slow clients, for about two minutes; otherwise a short run without figures")

const (
	role = "abused server"

	// rate is how many calls a second one identity may make.
	rate = 200
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Roles{role: serve}).Run()) }

// serve is a process with a lock server, and with a handler that refuses every call at once. It
// prints their addresses.
func serve([]string) int {
	v, err := server.New(context.Background(), mem.New(), &server.Options{
		Authenticate: []server.Authenticator{byName}, Limits: server.Limits{Calls: rate},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	refuser := v.HTTP()
	refuser.ConnState = nil
	refuser.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	failed := make(chan error)
	for _, h := range []*http.Server{v.HTTP(), refuser} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(l.Addr())
		go func() { failed <- h.Serve(l) }()
	}
	fmt.Fprintln(os.Stderr, <-failed)
	return 1
}

// byName is an Authenticator: a client is who it says it is.
func byName(r *http.Request) (*access.Identity, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, errors.New("no name")
	}
	return access.Everything(name), nil
}

// each calls f n times, d apart, until ctx ends.
func each(ctx context.Context, d time.Duration, f func()) {
	for ctx.Err() == nil {
		next := time.Now().Add(d)
		f()
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
}
