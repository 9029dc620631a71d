package abuse_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
)

// A load is what rude clients do to an address.
type load struct {
	slow, stalled int // clients
	calls         int // a second, of one identity

	sent, refused, cut atomic.Int64 // calls, those with 429, and connections that the server closed
}

// run runs the rude clients until ctx ends.
func (l *load) run(ctx context.Context, addr string) {
	var all sync.WaitGroup
	for i := range l.slow {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond) // not all at once
			each(ctx, 100*time.Millisecond, func() { l.dawdle(ctx, addr) })
		})
	}
	for range l.stalled {
		all.Go(func() { each(ctx, time.Second, func() { l.stall(ctx, addr) }) })
	}
	const senders = 20
	transport := &http.Transport{MaxIdleConnsPerHost: senders}
	defer transport.CloseIdleConnections()
	for range senders {
		all.Go(func() {
			each(ctx, time.Second*senders/time.Duration(l.calls), func() { l.call(ctx, transport, addr) })
		})
	}
	all.Wait()
}

// dawdle sends a request byte by byte, until the server closes the connection.
func (l *load) dawdle(ctx context.Context, addr string) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	text := "POST /distlock.v1.Store/Acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer rude\r\nX-Slow: " + strings.Repeat("a", 4096)
	for _, b := range []byte(text) {
		if _, err := c.Write([]byte{b}); err != nil || ctx.Err() != nil {
			l.cut.Add(1)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// stall opens a stream of watches, and receives nothing more after its first message.
func (l *load) stall(ctx context.Context, addr string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	transport := &http.Transport{Protocols: &http.Protocols{}, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &deaf{Conn: c, left: 1024, ctx: ctx}, nil
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	stream, err := api.NewStoreClient(&named{transport}, "http://"+addr, connect.WithGRPC()).Watch(ctx)
	if err != nil {
		return
	}
	for i := range 50 {
		id := message.ID(driver.ID{Key: goodName(i % good), Owner: "rude"})
		if err := stream.Send(&api.WatchRequest{Watch: uint64(i + 1), Id: id}); err != nil {
			return
		}
	}
	<-ctx.Done()
}

// named adds the name of the rude client to requests.
type named struct{ *http.Transport }

// Do sends a request.
func (n *named) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer rude")
	return n.RoundTrip(r)
}

// deaf is a connection that stops to receive after some bytes.
type deaf struct {
	net.Conn
	left int
	ctx  context.Context
}

// Read reads the first bytes, and then nothing.
func (d *deaf) Read(p []byte) (int, error) {
	if d.left <= 0 {
		select {
		case <-d.ctx.Done():
		case <-time.After(30 * time.Second):
		}
		return 0, io.EOF
	}
	n, err := d.Conn.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}

// call makes one call too many.
func (l *load) call(ctx context.Context, transport *http.Transport, addr string) {
	body := strings.NewReader(`{"id":{"key":"cnVkZQ==","owner":"cnVkZQ=="},"weight":"1","limit":"1","ttlNs":"60000000000"}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+api.StoreAcquireProcedure, body)
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer rude")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	l.sent.Add(1)
	if resp.StatusCode == http.StatusTooManyRequests {
		l.refused.Add(1)
	}
}
