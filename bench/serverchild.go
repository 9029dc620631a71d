package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"
	"strings"

	rpc "connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
)

// serverWord is the argument that makes this program a lock server.
const serverWord = "lock-server"

// A serverChild is a lock server in a process of its own.
type serverChild struct {
	addr, bare string // of the lock server, and of bare calls
	direct     string // of bare calls that call the store
	stdin      io.WriteCloser
	lines      *bufio.Reader
}

// startServer starts a lock server on a store.
func startServer(ctx context.Context, url string, later func(func())) (*serverChild, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd := osexec.CommandContext(ctx, program, serverWord)
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &serverChild{lines: bufio.NewReader(stdout)}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	later(func() {
		_ = c.stdin.Close()
		_ = cmd.Wait()
	})
	line, err := c.call(url)
	if _, scan := fmt.Sscan(line, &c.addr, &c.bare, &c.direct); err != nil || scan != nil {
		return nil, fmt.Errorf("the lock server does not start: %s", open.Redact(stderr.String()))
	}
	return c, nil
}

// call sends a line, and returns the answer.
func (c *serverChild) call(line string) (string, error) {
	if _, err := fmt.Fprintln(c.stdin, line); err != nil {
		return "", err
	}
	return c.lines.ReadString('\n')
}

// memory returns the bytes of the server's heap and stacks.
func (c *serverChild) memory() (float64, error) {
	line, err := c.call("memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(line), 64)
}

// serveChild is the lock server. The first line of its input is the URL of its store. After each
// later line it prints its memory. It ends with its input.
func serveChild(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) int {
	in := bufio.NewScanner(stdin)
	in.Scan()
	src, err := open.Open(ctx, in.Text())
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer src.Close()
	v, err := server.New(ctx, src.Store, &server.Options{Anonymous: access.Everything("bench")})
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	mux, direct := http.NewServeMux(), http.NewServeMux()
	mux.Handle(api.NewStoreHandler(bareStore{}, alike))
	mux.Handle(bare{}.handler())
	direct.Handle(api.NewStoreHandler(directStore{store: src.Store}, alike))
	direct.Handle(bare{store: src.Store}.handler())
	var addrs []any
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	for _, h := range []*http.Server{v.HTTP(), {Handler: mux, Protocols: protocols}, {Handler: direct, Protocols: protocols}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		defer h.Close()
		go func() { _ = h.Serve(l) }()
		addrs = append(addrs, l.Addr())
	}
	fmt.Fprintln(stdout, addrs...)
	for in.Scan() {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintln(stdout, m.HeapAlloc+m.StackInuse)
	}
	return 0
}

// alike is an option of bare handlers. A lock server has it too: short answers are not compressed.
var alike = rpc.WithCompressMinBytes(4 << 10)

// A bareStore answers at once, and keeps nothing. Its Show waits until the caller leaves.
type bareStore struct{ api.UnimplementedStoreHandler }

// Acquire grants.
func (bareStore) Acquire(context.Context, *api.AcquireRequest) (*api.AcquireResponse, error) {
	return &api.AcquireResponse{Granted: true, Fresh: true, Fence: 1 << 50, Used: 1}, nil
}

// Release returns nil.
func (bareStore) Release(context.Context, *api.ReleaseRequest) (*api.ReleaseResponse, error) {
	return &api.ReleaseResponse{}, nil
}

// Show waits.
func (bareStore) Show(ctx context.Context, _ *api.ShowRequest) (*api.ShowResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A directStore calls the store, and adds nothing.
type directStore struct {
	api.UnimplementedStoreHandler
	store driver.Store
}

// Acquire calls the store.
func (d directStore) Acquire(ctx context.Context, m *api.AcquireRequest) (*api.AcquireResponse, error) {
	res, err := d.store.Acquire(ctx, message.RequestOf(m))
	return message.Result(res), err
}

// Release calls the store.
func (d directStore) Release(ctx context.Context, m *api.ReleaseRequest) (*api.ReleaseResponse, error) {
	return &api.ReleaseResponse{}, d.store.Release(ctx, message.IDOf(m.GetId()))
}
