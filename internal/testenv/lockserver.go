package testenv

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// LockServer starts the test binary in a role that is a lock server: it gets an address to listen
// on and the URL of its store, and serves until a signal ends it. An empty URL is a SQLite file for
// remote holders in the folder of the server, which Restart keeps. LockServer returns when the
// server answers.
func LockServer(t testing.TB, role, store string) *Server {
	t.Helper()
	var s *Server
	own(t, func(g *group) (err error) {
		if s, err = g.add("lock server"); err != nil {
			return err
		}
		s.URL = "http://" + s.Addr
		url := store
		if url == "" {
			url = "sqlite:" + filepath.Join(s.data(), "locks.db") + "?holders=remote"
		}
		program, err := os.Executable()
		if err != nil {
			return err
		}
		args, err := json.Marshal([]string{s.Addr, url})
		if err != nil {
			return err
		}
		s.stop = syscall.SIGTERM
		s.plan = plan{
			fill: func() error { return nil },
			cmd: func() *exec.Cmd {
				cmd := exec.Command(program, argsFollow)
				cmd.Env = append(os.Environ(), roleVariable+"="+role)
				cmd.Stdin = bytes.NewReader(append(args, '\n')) // the URL may have a password
				return cmd
			},
			ready: func(ctx context.Context) error { return lockServerReady(ctx, s.URL) },
			death: os.Kill,
		}
		return s.up()
	})
	return s
}

// lockServerReady returns nil when the server answers.
func lockServerReady(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/distlock.v1.Store/Features", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: probeLimit}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", res.Status)
	}
	return nil
}
