package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// A pipeListener is a listener in memory, for virtual time.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A stallConn is the connection of a client that may stop to read.
type stallConn struct {
	net.Conn
	stalled *atomic.Bool
	closed  chan struct{}
	once    sync.Once
}

func (c *stallConn) Read(b []byte) (int, error) {
	if c.stalled.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}

func (c *stallConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// onPipes serves a store in virtual time, and returns a function that connects to it. The channel
// is closed when the server has closed its first connection.
func onPipes(t *testing.T, s driver.Store) (dial func() net.Conn, closed <-chan struct{}) {
	t.Helper()
	return servedOn(t, s, (*server.Server).HTTP)
}

// servedOn is onPipes with the HTTP server that a function makes.
func servedOn(t *testing.T, s driver.Store, web func(*server.Server) *http.Server) (dial func() net.Conn, closed <-chan struct{}) {
	t.Helper()
	v, err := server.New(t.Context(), s, &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	l := &pipeListener{conns: make(chan net.Conn), ended: make(chan struct{})}
	h, first := web(v), make(chan struct{})
	var once sync.Once
	h.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			once.Do(func() { close(first) })
		}
	}
	var served sync.WaitGroup
	served.Go(func() { _ = h.Serve(l) })
	t.Cleanup(func() {
		_ = h.Close()
		served.Wait()
	})
	return func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		t.Cleanup(func() { _ = ours.Close() })
		return ours
	}, first
}

// A client that sends its header or its message too slowly is cut off, and one with a header that
// is too large is refused.
func TestServer_slow(t *testing.T) {
	const (
		call  = "POST " + api.StoreFeaturesProcedure + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		watch = "POST " + api.StoreWatchProcedure + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/connect+json\r\n"
		body  = "Content-Length: 2\r\n\r\n{"
	)
	for name, tt := range map[string]struct {
		send  string
		limit time.Duration
	}{
		"header": {call, 5 * time.Second},
		"body":   {call + body, 10 * time.Second},

		"body of a call for another store": {call + "Distlock-Store: other\r\n" + body, 10 * time.Second},
		"body of a page of another origin": {call + "Sec-Fetch-Site: cross-site\r\n" + body, 10 * time.Second},
		"body of Watch by HTTP/1.1":        {watch + body, 10 * time.Second},
	} {
		slow := func(t *testing.T, web func(*server.Server) *http.Server) {
			synctest.Test(t, func(t *testing.T) {
				dial, _ := servedOn(t, mem.New(), web)
				c, began := dial(), time.Now()
				if _, err := io.WriteString(c, tt.send); err != nil {
					t.Fatal(err)
				}
				_ = c.SetReadDeadline(began.Add(time.Minute))
				got, _ := io.ReadAll(c)
				if took := time.Since(began); took > tt.limit+time.Second || strings.Contains(string(got), "200 OK") {
					t.Errorf("cut off after %v, want %v: %s", took, tt.limit, got)
				}
			})
		}
		t.Run(name, func(t *testing.T) { slow(t, (*server.Server).HTTP) })
		if name != "header" { // which a handler does not see
			t.Run(name+", as a handler", func(t *testing.T) {
				slow(t, func(v *server.Server) *http.Server { return &http.Server{Handler: v} })
			})
		}
	}
	t.Run("body by HTTP/2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dial, _ := onPipes(t, mem.New())
			web := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}
			web.Protocols.SetUnencryptedHTTP2(true)
			defer web.CloseIdleConnections()
			body, more := io.Pipe()
			defer more.Close()
			go func() { _, _ = io.WriteString(more, "{") }()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+api.StoreFeaturesProcedure, body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			began := time.Now()
			resp, err := web.RoundTrip(r)
			if took := time.Since(began); took > 11*time.Second || err == nil && resp.StatusCode == http.StatusOK {
				t.Errorf("cut off after %v: %v, %v", took, resp, err)
			}
			if err == nil {
				_ = resp.Body.Close()
			}
		})
	})
	t.Run("large header", func(t *testing.T) {
		_, web, _ := serve(t, mem.New())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+api.StoreFeaturesProcedure, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Large", strings.Repeat("x", 32<<10))
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 32 KiB: %s", resp.Status)
		}
	})
}

// A message that is small on the way and large in memory is refused, and so is a GET.
func TestServer_odd(t *testing.T) {
	_, web, _ := serve(t, mem.New())
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = fmt.Fprintf(w, `{"id":{"key":"%s"}}`, strings.Repeat("A", 1<<20))
	_ = w.Close()
	for name, tt := range map[string]struct {
		method, path string
		body         io.Reader
		code         int
	}{
		"packed": {http.MethodPost, api.StoreReleaseProcedure, &packed, http.StatusTooManyRequests},
		"GET":    {http.MethodGet, api.StoreFeaturesProcedure + "?encoding=json&message=%7B%7D&connect=v1", nil, http.StatusMethodNotAllowed},
		"path":   {http.MethodPost, "/distlock.v1.Store/Nothing", nil, http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, web.URL+tt.path, tt.body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if name == "packed" {
			r.Header.Set("Content-Encoding", "gzip")
		}
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.code {
			t.Errorf("%s: %s %s", name, resp.Status, text)
		}
	}
}

// alive is a store that counts the watches that have not ended.
type alive struct {
	driver.Forward
	watches atomic.Int64
}

func (s *alive) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	s.watches.Add(1)
	context.AfterFunc(ctx, func() { s.watches.Add(-1) })
	return s.Forward.Watch(ctx, id)
}

// A watcher that does not receive is cut off, with its connection.
func TestServer_stalled_watcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alive{Forward: driver.Forward{Store: mem.New()}}
		dial, closed := onPipes(t, store)
		var stalled atomic.Bool
		two := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(context.Context, string, string) (net.Conn, error) {
			c := &stallConn{Conn: dial(), stalled: &stalled, closed: make(chan struct{})}
			t.Cleanup(func() { _ = c.Close() })
			return c, nil
		}}
		two.Protocols.SetUnencryptedHTTP2(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := api.NewStoreClient(&http.Client{Transport: two}, "http://localhost").Watch(ctx)
		if err == nil {
			err = stream.Send(&api.WatchRequest{Watch: 1, Id: message.ID(driver.ID{Key: "key"})})
		}
		for range 2 { // the stream and the watch are active
			if err == nil {
				_, err = stream.Receive()
			}
		}
		if err != nil || store.watches.Load() != 1 {
			t.Fatalf("%d watches, %v", store.watches.Load(), err)
		}
		stalled.Store(true)
		began := time.Now()
		for range 100 { // each release wakes the watcher
			if _, err := store.Acquire(ctx, request("x")); err != nil {
				t.Fatal(err)
			}
			if err := store.Release(ctx, request("x").ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		select {
		case <-closed:
			t.Logf("cut off after %v", time.Since(began))
		case <-time.After(time.Minute):
			t.Error("the connection is open after a minute")
		}
		synctest.Wait()
		if n := store.watches.Load(); n != 0 {
			t.Errorf("%d watches are left", n)
		}
	})
}

// waking is a store whose watches get the messages of a channel.
type waking struct {
	alive
	wakes chan driver.Wake
}

func (s *waking) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	_ = s.alive.Watch(ctx, id)
	return s.wakes
}

// A client that does not receive its stream, on a connection that works, is cut off. So is one that
// has said that it sends nothing more.
func TestServer_stalled_stream(t *testing.T) {
	for name, closes := range map[string]bool{"open": false, "closed by the client": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stalledStream(t, closes) })
		})
	}
}

func stalledStream(t *testing.T, closes bool) {
	store := &waking{alive{Forward: driver.Forward{Store: mem.New()}}, make(chan driver.Wake)}
	var calls atomic.Int64 // in progress
	dial, _ := servedOn(t, store, func(v *server.Server) *http.Server {
		h := v.HTTP()
		inner := h.Handler
		h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			defer calls.Add(-1)
			inner.ServeHTTP(w, r)
		})
		return h
	})
	two := &http.Transport{
		Protocols: &http.Protocols{}, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
	}
	t.Cleanup(two.CloseIdleConnections)
	two.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := api.NewStoreClient(&http.Client{Transport: two}, "http://localhost")
	stream, err := c.Watch(ctx)
	if err == nil {
		err = stream.Send(&api.WatchRequest{Watch: 1, Id: message.ID(driver.ID{Key: "key"})})
	}
	for range 2 { // the stream and the watch are active
		if err == nil {
			_, err = stream.Receive()
		}
	}
	if err != nil || store.watches.Load() != 1 {
		t.Fatalf("%d watches, %v", store.watches.Load(), err)
	}
	sent := 0
	for full := false; !full; sent++ {
		select {
		case store.wakes <- driver.Wake{}:
		case <-time.After(time.Second):
			full = true
		}
	}
	time.Sleep(5 * time.Second)
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls after a short stall and %d messages, want 1", n, sent)
	}
	if closes {
		if err := stream.CloseRequest(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
	}
	time.Sleep(7 * time.Second)
	if n, watches := calls.Load(), store.watches.Load(); n != 0 || watches != 0 {
		t.Errorf("%d calls and %d watches are left after %d messages", n, watches, sent)
	}
	if _, err := c.Show(ctx, &api.ShowRequest{Key: []byte("key")}); err != nil {
		t.Errorf("another call on the connection: %v", err)
	}
}
