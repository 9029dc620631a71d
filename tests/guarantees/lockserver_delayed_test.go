package guarantees_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/remote"
)

// A memoryNet is a network in virtual time with one server.
type memoryNet struct {
	conns chan net.Conn
	ended chan struct{}
}

func (n *memoryNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.ended:
		return nil, net.ErrClosed
	}
}

func (n *memoryNet) Close() error {
	close(n.ended)
	return nil
}

func (n *memoryNet) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// A slowLink is the link of one client. Answers arrive late, and nothing arrives after a cut.
type slowLink struct {
	net   *memoryNet
	delay atomic.Int64
	cut   chan struct{}
}

func (l *slowLink) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.net.conns <- theirs:
		return &slowConn{Conn: ours, link: l, closed: make(chan struct{})}, nil
	case <-l.net.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type slowConn struct {
	net.Conn
	link   *slowLink
	once   sync.Once
	closed chan struct{}
}

func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.link.cut:
		<-c.closed
		return 0, net.ErrClosed
	case <-c.closed:
	case <-time.After(time.Duration(c.link.delay.Load())):
	}
	return n, err
}

func (c *slowConn) Write(b []byte) (int, error) {
	select {
	case <-c.link.cut:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

// open returns a locker on this link.
func (l *slowLink) open(t *testing.T, ttl time.Duration) *distlock.Locker {
	t.Helper()
	s, err := remote.Open(t.Context(), "http://localhost", &remote.Options{Dial: l.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return locker(t, s, distlock.TTL(ttl))
}

// The answers to a process that waits are delayed for long, and then its link is cut. It trusts its
// lease until its own TTL has passed since it sent the attempt, and a rival is granted the lock
// later than that. An answer that takes longer than a call is no answer.
func TestLockServer_delayed(t *testing.T) {
	for _, delay := range []time.Duration{0, 3 * time.Second, 8 * time.Second, 20 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { delayed(t, delay) })
		})
	}
}

func delayed(t *testing.T, delay time.Duration) {
	const ttl = 30 * time.Second
	network := &memoryNet{conns: make(chan net.Conn), ended: make(chan struct{})}
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	h := v.HTTP()
	var served sync.WaitGroup
	served.Go(func() { _ = h.Serve(network) })
	t.Cleanup(func() {
		_ = h.Close()
		served.Wait()
	})
	link := func() *slowLink { return &slowLink{net: network, cut: make(chan struct{})} }
	slow := link()
	first, waiter, rival := link().open(t, ttl), slow.open(t, ttl), link().open(t, ttl)
	held, err := first.Lock(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	var lease *distlock.Lease
	var lost time.Time
	waits.Go(func() {
		if lease, _ = waiter.Lock(wait, "key"); lease != nil {
			<-lease.Done()
			lost = time.Now()
		}
	})
	time.Sleep(29 * time.Second)
	slow.delay.Store(int64(delay))
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(45 * time.Second) // some renewals may succeed
	close(slow.cut)
	cutAt := time.Now()
	next, err := rival.Lock(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	granted := time.Now()
	cancel()
	waits.Wait()
	switch {
	case lease == nil && delay < 5*time.Second:
		t.Error("the waiter was not granted the lock, so this shows nothing")
	case lease == nil:
		t.Logf("answers late by %v: the waiter trusted no grant; the rival was granted %v after the cut", delay, granted.Sub(cutAt))
	case !lost.Before(granted) || next.Fence() <= lease.Fence():
		t.Errorf("two holders for %v, fence %d after %d", lost.Sub(granted), next.Fence(), lease.Fence())
	default:
		t.Logf("answers late by %v: overlap %v", delay, lost.Sub(granted))
	}
	if err := next.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
