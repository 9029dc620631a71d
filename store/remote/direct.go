package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// A direct has connections of HTTP/1.1 to a server, for calls with one short answer. The goroutine
// that makes a call writes and reads its connection itself. The connections of [http.Transport]
// have two goroutines each, and to wake them takes a large part of a call.
//
// As there, a request is sent once: if its connection breaks, the outcome is unknown.
//
// A request ends with its ctx, and after callLimit. The limit is the deadline of its connection,
// and no timer of a ctx: to start and to stop a timer for each call takes a large part of it.
type direct struct {
	dial  func(ctx context.Context) (*conn, error)
	tls   *tls.Config // nil: without TLS
	slots chan struct{}

	mu     sync.Mutex
	idle   []*carrier // the one that was used last is the last
	tended bool       // a timer runs, which closes those that are idle for long
}

// A carrier is one connection.
type carrier struct {
	net.Conn
	raw    syscall.RawConn
	limit  *io.LimitedReader // bounds an answer
	reader *bufio.Reader
	text   bytes.Buffer // of a request
	used   time.Time    // when the last call on it ended
	end    time.Time    // its deadline
}

// maxAnswer bounds an answer with its header. The largest one has 64 refusals, each with the value
// and the metadata of the claim that is in the way: 5 MiB.
const maxAnswer = 8 << 20

// maxText is the largest buffer that a connection keeps for its next request.
const maxText = 64 << 10

// endStep is how much longer than callLimit a call may take. So the deadline of a connection
// changes once in that time, and not with each call.
const endStep = time.Second

var errLong = errors.New("the answer is too long")

// newDirect returns no connections yet. The config may be nil: then there is no TLS.
func newDirect(dial func(context.Context) (*conn, error), config *tls.Config) *direct {
	return &direct{dial: dial, tls: config, slots: make(chan struct{}, maxConns)}
}

// RoundTrip sends a request, and returns its answer with the whole body.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end := r.Context(), time.Now().Add(callLimit)
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-d.slots }()
	c, err := d.get(ctx, end)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	resp, err := c.send(r)
	switch sound := stop(); {
	case err != nil:
		_ = c.Close() // the error of the call is the one that counts
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	case !sound || resp.Close || c.reader.Buffered() > 0:
		_ = c.Close() // the answer is there
	default:
		d.put(c)
	}
	return resp, nil
}

// enter waits until a call may have a connection.
func (d *direct) enter(ctx context.Context) error {
	select {
	case d.slots <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// until sets the deadline of the connection to a time, or up to endStep later.
func (c *carrier) until(end time.Time) {
	if c.end.Before(end) {
		c.end = end.Add(endStep)
		_ = c.SetDeadline(c.end) // it fails if the connection is closed, and so does the call
	}
}

// send writes a request, and reads the answer. The request is one write: net/http flushes a
// bufio.Writer after the header, and the server would wake up for each of the two parts.
func (c *carrier) send(r *http.Request) (*http.Response, error) {
	c.limit.N = maxAnswer
	if c.text.Cap() > maxText {
		c.text = bytes.Buffer{}
	}
	c.text.Reset()
	err := r.Write(&c.text)
	if err == nil {
		_, err = c.Write(c.text.Bytes())
	}
	if err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.reader, r)
	for err == nil && resp.StatusCode < http.StatusOK { // such as 103: the answer follows
		resp, err = http.ReadResponse(c.reader, r)
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	if c.limit.N == 0 {   // a part, which may look as if it were all
		return nil, errLong
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, err
}

// get returns an idle connection, or a new one, for a call that ends at a time.
func (d *direct) get(ctx context.Context, end time.Time) (*carrier, error) {
	for {
		d.mu.Lock()
		n := len(d.idle)
		if n == 0 {
			d.mu.Unlock()
			c, err := d.connect(ctx)
			if err == nil {
				c.until(end)
			}
			return c, err
		}
		c := d.idle[n-1]
		d.idle = d.idle[:n-1]
		d.mu.Unlock()
		c.until(end) // first: after its old deadline, a connection is not quiet
		if time.Since(c.used) < idleLimit && quiet(c.raw) {
			return c, nil
		}
		_ = c.Close() // the server, or something on the way, has closed it
	}
}

// connect makes a connection.
func (d *direct) connect(ctx context.Context) (*carrier, error) {
	plain, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	var made net.Conn = plain
	raw, err := plain.raw()
	if err == nil && d.tls != nil {
		made, err = d.secure(ctx, plain)
	}
	if err != nil {
		_ = made.Close() // the other error says more
		return nil, err
	}
	limit := &io.LimitedReader{R: made}
	return &carrier{Conn: made, raw: raw, limit: limit, reader: bufio.NewReader(limit)}, nil
}

// secure begins TLS on a connection. It returns a connection also with an error.
func (d *direct) secure(ctx context.Context, made net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	c := tls.Client(made, d.tls)
	return c, c.HandshakeContext(ctx)
}

// put keeps a connection for the next call.
func (d *direct) put(c *carrier) {
	c.used = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = append(d.idle, c)
	if !d.tended {
		d.tended = true
		time.AfterFunc(idleLimit, d.tend)
	}
}

// tend closes connections that are idle for long.
func (d *direct) tend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := 0
	for old < len(d.idle) && time.Since(d.idle[old].used) >= idleLimit {
		_ = d.idle[old].Close() // nobody uses it
		old++
	}
	d.idle = append([]*carrier(nil), d.idle[old:]...)
	if d.tended = len(d.idle) > 0; d.tended {
		time.AfterFunc(idleLimit, d.tend)
	}
}

// CloseIdleConnections closes the connections that no call uses.
func (d *direct) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.idle {
		_ = c.Close() // nobody uses it
	}
	d.idle = nil
}
