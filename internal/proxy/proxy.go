// Package proxy is a TCP proxy that breaks on command. Only tests use it.
package proxy

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// dialLimit is for the server to accept a connection. A busy machine takes seconds.
const dialLimit = 30 * time.Second

// A Direction is a way through a [Proxy]. ToServer carries requests, ToClient replies.
type Direction int

// The directions.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// A Proxy is a TCP proxy that produces faults on command. All methods may be called at any time.
// They act on open and on future connections.
type Proxy struct {
	Addr string // where clients connect

	target string
	listen net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]struct{}
	closed bool
	faults
}

// faults are the faults that Heal ends.
type faults struct {
	delay    time.Duration
	swallow  Direction
	hold     Direction
	held     chan struct{} // closed when hold may have changed
	refuse   bool
	marker   []byte
	eaten    chan struct{} // for marker
	cutLeft  int           // bytes of replies until the cut
	cutArmed chan struct{} // not nil: the cut is armed
}

// New starts a proxy in front of addr, which clients reach through l. The proxy forwards everything
// until a method changes that.
func New(l net.Listener, addr string) *Proxy {
	p := &Proxy{Addr: l.Addr().String(), target: addr, listen: l, links: map[*link]struct{}{}}
	p.held = make(chan struct{})
	p.wg.Go(p.accept)
	return p
}

// Retarget points the proxy at another server, like an address that moves with a failover. Open
// connections are broken.
func (p *Proxy) Retarget(addr string) {
	p.change(func() {
		p.target = addr
		p.resetAll()
	})
}

// Latency makes every piece of data wait for d, in each direction.
func (p *Proxy) Latency(d time.Duration) { p.change(func() { p.delay = d }) }

// Cut swallows all data in the direction. Connections stay open, and new ones are accepted. Heal
// breaks the connections that lost data.
func (p *Proxy) Cut(d Direction) { p.change(func() { p.swallow = d }) }

// Hold keeps back all data in the direction, and Heal delivers it late. A short partition has this
// effect on TCP.
func (p *Proxy) Hold(d Direction) { p.change(func() { p.hold = d }) }

// Reset breaks all open connections with a TCP reset. New ones work.
func (p *Proxy) Reset() { p.change(p.resetAll) }

// Refuse breaks all open connections, and every new one at once, until Heal.
func (p *Proxy) Refuse() {
	p.change(func() {
		p.refuse = true
		p.resetAll()
	})
}

// EatReply waits for a request that contains the marker. It forwards the request, swallows the
// reply, and closes the connection. It does so once, and then closes the channel.
func (p *Proxy) EatReply(marker []byte) <-chan struct{} {
	eaten := make(chan struct{})
	p.change(func() { p.marker, p.eaten = bytes.Clone(marker), eaten })
	return eaten
}

// CutAfter lets n more bytes of replies pass, over all connections, and then closes the connection
// whose reply reaches n bytes. With n = 0 the whole next reply is lost. It does so once, and then
// closes the channel.
func (p *Proxy) CutAfter(n int) <-chan struct{} {
	done := make(chan struct{})
	p.change(func() { p.cutLeft, p.cutArmed = n, done })
	return done
}

// Heal ends all faults. Connections that lost data are reset, since the data after the gap would
// make no sense.
func (p *Proxy) Heal() {
	p.change(func() {
		p.faults = faults{held: p.held}
		for l := range p.links {
			if l.lossy {
				l.reset()
			}
		}
	})
}

// Conns returns the number of open connections.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// change changes the faults, and wakes the goroutines that wait for a change.
func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.held)
	p.held = make(chan struct{})
}

func (p *Proxy) resetAll() {
	for l := range p.links {
		l.reset()
	}
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() {
	p.change(func() {
		p.closed = true
		p.resetAll()
	})
	_ = p.listen.Close()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.wg.Go(func() { p.serve(client.(*net.TCPConn)) })
		}
	}
}

// serve connects a client with the server, until one of them ends.
func (p *Proxy) serve(client *net.TCPConn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := (&net.Dialer{Timeout: dialLimit}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		abort(client)
		return
	}
	l := &link{p: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{})}
	p.mu.Lock()
	if p.closed || p.refuse || p.target != target {
		p.mu.Unlock()
		abort(client)
		abort(l.server)
		return
	}
	p.links[l] = struct{}{}
	p.mu.Unlock()

	var wg sync.WaitGroup
	wg.Go(func() { l.pump(l.server, l.client, ToServer) })
	wg.Go(func() { l.pump(l.client, l.server, ToClient) })
	wg.Wait()
	l.reset()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// abort closes a connection with a reset.
func abort(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
