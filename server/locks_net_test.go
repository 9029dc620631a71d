package server_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/store/mem"
)

// pipes is a listener in memory, for virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// transport serves a handler in memory, and returns a transport for HTTP/1.1, or HTTP/2 without
// TLS.
func transport(t *testing.T, h *http.Server, two bool) *http.Transport {
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(p) })
	tr := &http.Transport{DialContext: p.dial, Protocols: &http.Protocols{}}
	tr.Protocols.SetHTTP1(!two)
	tr.Protocols.SetUnencryptedHTTP2(two)
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = h.Close()
		serving.Wait()
	})
	return tr
}

// A call waits for longer than a request may take to be sent and an answer to be received, on every
// protocol. A caller that hangs up ends its wait.
func TestLocks_wait_connection(t *testing.T) {
	for _, two := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New()
			v, _, _ := people(t, s)
			c := api.NewLocksClient(&http.Client{Transport: transport(t, v.HTTP(), two)}, "http://localhost")
			release := hold(t, s, time.Hour)
			first, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(60)})
			if took != 25*time.Second || !first.GetAgain() {
				t.Fatalf("HTTP/2 %v: %v after %v", two, first, took)
			}
			time.AfterFunc(22*time.Second, release)
			out, took := wait(t, c, &api.LocksAcquireRequest{Handle: first.GetHandle(), Wait: seconds(35)})
			if !out.GetGranted() || took != 22*time.Second {
				t.Errorf("HTTP/2 %v: %v after %v", two, out, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
			defer cancel()
			if out, err := c.Acquire(ctx, &api.LocksAcquireRequest{Name: "key", Wait: seconds(20)}); err == nil {
				t.Errorf("%v", out)
			}
			synctest.Wait()
			if _, waiting := show(t, s); waiting > 0 {
				t.Errorf("HTTP/2 %v: the entry of a caller that hung up is there", two)
			}
		})
	}
}
