package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// drainLimit is for a server to finish the requests of a client that left.
const drainLimit = 5 * time.Second

// A link is one connection through a proxy.
type link struct {
	p              *Proxy
	client, server *net.TCPConn
	once           sync.Once
	done           chan struct{} // closed by reset

	// Guarded by p.mu.
	lossy bool          // data was swallowed
	eat   chan struct{} // not nil: the next reply is to be swallowed
	sent  chan struct{} // closed when the server has received the request with the marker
	seen  []byte        // the end of the requests so far, in which a marker may begin
}

func (l *link) reset() {
	l.once.Do(func() {
		close(l.done)
		abort(l.client)
		abort(l.server)
	})
}

// pump carries data in one direction, until it ends.
func (l *link) pump(to, from *net.TCPConn, d Direction) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !l.carry(to, buf[:n], d) {
			return
		}
		if err != nil {
			l.hangUp(to, err, d)
			return
		}
	}
}

// hangUp forwards the end of a connection. A cut or held direction does not carry the end, just as
// it does not carry data.
func (l *link) hangUp(to *net.TCPConn, err error, d Direction) {
	if errors.Is(err, net.ErrClosed) {
		return // closed by this side, which has a reason
	}
	l.wait(func() bool {
		l.lossy = l.lossy || l.p.swallow&d != 0
		return (l.p.swallow|l.p.hold)&d != 0
	})
	l.p.mu.Lock()
	lossy := l.lossy
	l.p.mu.Unlock()
	if lossy || !errors.Is(err, io.EOF) {
		l.reset()
		return
	}
	_ = to.CloseWrite() // the other direction may still carry data
}

// carry forwards one piece of data subject to the faults, and reports whether to continue.
func (l *link) carry(to *net.TCPConn, b []byte, d Direction) bool {
	if !l.delay(d) {
		return false
	}
	v := l.decide(b, d)
	if len(v.pass) > 0 {
		if _, err := to.Write(v.pass); err != nil {
			l.reset()
			return false
		}
	}
	if v.sent != nil {
		close(v.sent)
	}
	if v.fired == nil {
		return true
	}
	l.finish(v.after)
	close(v.fired)
	return false
}

// delay waits as Latency and Hold require. It returns false if the connection ended meanwhile.
func (l *link) delay(d Direction) bool {
	l.p.mu.Lock()
	delay := l.p.delay
	l.p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-l.done:
			return false
		}
	}
	return l.wait(func() bool { return l.p.hold&d != 0 })
}

// wait waits while the condition is true. It calls the condition with p.mu held. It returns false
// if the connection ended meanwhile.
func (l *link) wait(while func() bool) bool {
	for {
		l.p.mu.Lock()
		wait, changed := while(), l.p.held
		l.p.mu.Unlock()
		if !wait {
			return true
		}
		select {
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

// A verdict is the decision about one piece.
type verdict struct {
	pass  []byte        // the part that is forwarded
	sent  chan struct{} // to be closed after that
	fired chan struct{} // not nil: the connection ends, and this is to be closed then
	after chan struct{} // the end waits for this; nil: for nothing
}

// decide returns the verdict about one piece.
func (l *link) decide(b []byte, d Direction) verdict {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.swallow&d != 0:
		l.lossy = true
		return verdict{}
	case d == ToServer:
		return verdict{pass: b, sent: l.spot(b)}
	case l.eat != nil:
		return verdict{fired: l.eat, after: l.sent}
	case p.cutArmed == nil:
		return verdict{pass: b}
	case p.cutLeft > len(b):
		p.cutLeft -= len(b)
		return verdict{pass: b}
	}
	v := verdict{pass: b[:p.cutLeft], fired: p.cutArmed}
	p.cutArmed = nil
	return v
}

// spot searches for the marker in the requests, also where it spans two pieces. If the marker is
// there, the reply is to be swallowed, and the channel is to be closed when the request was sent:
// an earlier reply may arrive first, and must not end the connection before.
func (l *link) spot(b []byte) chan struct{} {
	p := l.p
	if p.marker == nil {
		l.seen = nil
		return nil
	}
	l.seen = append(l.seen, b...)
	if !bytes.Contains(l.seen, p.marker) {
		l.seen = bytes.Clone(l.seen[max(0, len(l.seen)-len(p.marker)+1):])
		return nil
	}
	l.eat, l.sent = p.eaten, make(chan struct{})
	p.marker, l.seen = nil, nil
	return l.sent
}

// finish closes the connection in order, and gives the server time to execute all requests: a reset
// could make it drop requests that it has not read.
func (l *link) finish(after chan struct{}) {
	if after != nil {
		select {
		case <-after:
		case <-l.done:
		}
	}
	_ = l.client.Close()
	_ = l.server.CloseWrite()
	_ = l.server.SetReadDeadline(time.Now().Add(drainLimit))
	_, _ = io.Copy(io.Discard, l.server)
	l.reset()
}
