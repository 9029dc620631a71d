// Package pgwire runs prepared statements on connections to PostgreSQL, for all stores that have
// connections of their own. pgx would wait for the answer to one call before it sends the next,
// close a connection whose answer is late, and request a description of known columns.
package pgwire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// readFor is how long a caller reads before it looks at its ctx, and quietFor how long a connection
// is quiet before the watch reads. Being woken by the watch costs a caller as much time as the
// server takes for the answer.
const (
	readFor  = 10 * time.Millisecond
	quietFor = 5 * time.Millisecond
)

var (
	errUnexpected = errors.New("the server sent an unexpected message")
	errClosed     = errors.New("it was closed")
)

// A Conn is a connection on which many goroutines send calls. Callers read the answers, each one
// also those of others. After [Conn.Watch] a goroutine, the watch, reads while no caller does.
type Conn struct {
	notify func(channel, payload string)
	pg     *pgconn.PgConn // its origin; now only used to cancel
	socket net.Conn
	front  *pgproto3.Frontend
	ended  chan struct{}

	sending sync.Mutex    // held while a call is sent, so that answers have the order of calls
	baton   chan struct{} // full: a goroutine reads
	until   time.Time     // the read deadline; guarded by baton
	watch   chan struct{} // full: the watch shall read now

	mu      sync.Mutex // guards the fields below
	calls   []*Call    // sent and not answered
	used    time.Time  // when a call was last sent or answered
	watched bool
	onEnd   func()
	closed  bool
	err     error // why it ended
}

// New takes over an idle connection. notify, if it is not nil, is called with each notification by
// the goroutine that reads.
func New(pg *pgconn.PgConn, notify func(channel, payload string)) (*Conn, error) {
	h, err := pg.Hijack()
	if err != nil {
		return nil, err
	}
	keepAlive(h.Conn)
	return &Conn{notify: notify, pg: pg, socket: h.Conn, front: h.Frontend, used: time.Now(),
		ended: make(chan struct{}), baton: make(chan struct{}, 1),
		watch: make(chan struct{}, 1)}, nil
}

// keepAlive enables TCP keepalives, so that a lost peer is noticed even if nothing is sent.
func keepAlive(c net.Conn) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second,
			Interval: 3 * time.Second, Count: 3})
	}
}

// Watch makes the connection notice notifications and its own end at once. onEnd, if it is not nil,
// is called once, when the connection has ended and all calls are answered.
func (c *Conn) Watch(onEnd func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched, c.onEnd = true, onEnd
	go c.runWatch()
}

// Send sends a call. After an error it was not sent, and it has no answer. A caller that calls
// neither [Conn.Read] nor [Conn.Await] then calls [Conn.WatchNow].
func (c *Conn) Send(k *Call) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	if err := c.errLocked(); err != nil {
		c.mu.Unlock()
		return err
	}
	k.sent = time.Now()
	c.used = k.sent
	c.calls = append(c.calls, k)
	c.mu.Unlock()
	k.write(c.front)
	if err := c.front.Flush(); err != nil {
		c.Close() // the reader reports the end to all calls, also to this one
	}
	return nil
}

// Read reads answers for a short time, until done is closed. It returns false if the answer takes
// longer, or if another goroutine reads.
func (c *Conn) Read(done <-chan struct{}) bool {
	select {
	case c.baton <- struct{}{}:
		return c.readUntil(done)
	default:
		return false
	}
}

// Await returns when done is closed, or with the error of ctx. It reads answers if no other
// goroutine does, and leaves late ones to the watch. When the reader has its answer, another
// waiting caller reads.
func (c *Conn) Await(ctx context.Context, done <-chan struct{}) error {
	baton := c.baton
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case baton <- struct{}{}:
			if !c.readUntil(done) && c.WatchNow() {
				baton = nil
			}
		}
	}
}

// Ping checks that the server answers before ctx ends.
func (c *Conn) Ping(ctx context.Context) error {
	k := &Call{Done: make(chan struct{})}
	if err := c.Send(k); err != nil {
		return err
	}
	if err := c.Await(ctx, k.Done); err != nil {
		return err
	}
	return errors.Join(k.Lost, k.Err)
}

// readUntil reads answers until done is closed, and releases the baton. It returns false if that
// took too long.
func (c *Conn) readUntil(done <-chan struct{}) bool {
	select {
	case <-done: // by the previous reader
		<-c.baton
		return true
	default:
	}
	if now := time.Now(); c.until.Sub(now) < readFor/2 {
		c.until = now.Add(readFor)
		if err := c.socket.SetReadDeadline(c.until); err != nil {
			c.until = time.Time{}
		}
	}
	err := c.receive(done)
	<-c.baton
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if err != nil {
		c.fail(err)
	}
	return true
}

// WatchNow makes the watch read now, and reports whether there is one.
func (c *Conn) WatchNow() bool {
	select {
	case c.watch <- struct{}{}:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watched
}

// runWatch is the watch. It reads until no call is in progress, and then leaves reading to callers
// until the connection is quiet.
func (c *Conn) runWatch() {
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		quiet.Reset(quietFor)
		select {
		case <-c.ended:
			return
		case <-c.watch:
		case <-quiet.C:
		}
		if calls, _, idle := c.Load(); calls == 0 && idle < quietFor {
			continue
		}
		select {
		case c.baton <- struct{}{}:
		default:
			continue // a caller reads, for a while
		}
		c.until = time.Time{}
		err := c.socket.SetReadDeadline(c.until)
		for more := true; more && err == nil; more = c.first() != nil {
			err = c.receive(nil)
		}
		<-c.baton
		if err != nil {
			c.fail(err)
		}
	}
}

// fail ends the connection, and reports the error to all calls.
func (c *Conn) fail(err error) {
	_ = c.socket.Close()
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	left, onEnd := c.calls, c.onEnd
	c.calls = nil
	c.mu.Unlock()
	for _, k := range left {
		k.Lost = err
		k.finish()
	}
	if onEnd != nil {
		onEnd()
	}
	close(c.ended)
}

// receive reads until done is closed, or one complete answer if done is nil. The caller has the
// baton.
func (c *Conn) receive(done <-chan struct{}) error {
	for {
		m, err := c.front.Receive()
		if err != nil {
			return err
		}
		if err := c.handle(m); err != nil {
			return err
		}
		if _, ok := m.(*pgproto3.ReadyForQuery); !ok {
			continue
		}
		k := c.pop()
		if k == nil {
			return errUnexpected
		}
		k.finish()
		if done == nil {
			return nil
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

// handle records a message in the first call. An error ends the connection.
func (c *Conn) handle(m pgproto3.BackendMessage) error {
	switch m := m.(type) {
	case *pgproto3.DataRow:
		st := c.first().next()
		if st == nil {
			return errUnexpected
		}
		st.Rows = append(st.Rows, copied(m.Values))
	case *pgproto3.ParseComplete, *pgproto3.CommandComplete:
		k := c.first()
		st := k.next()
		if st == nil {
			return errUnexpected
		}
		if _, parsed := m.(*pgproto3.ParseComplete); parsed {
			st.Parsed = true
		} else {
			st.Done = true
		}
		if st.Done || st.Only {
			k.at++
		}
	case *pgproto3.NotificationResponse:
		if c.notify != nil {
			c.notify(m.Channel, m.Payload)
		}
	case *pgproto3.ErrorResponse:
		pgErr := pgconn.ErrorResponseToPgError(m)
		if k := c.first(); k != nil && k.Err == nil {
			k.Err = pgErr
		}
		if Fatal(pgErr) {
			return pgErr
		}
	}
	return nil
}

// Fatal reports whether an error of the server ended the connection.
func Fatal(pg *pgconn.PgError) bool {
	return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" ||
		pg.Severity == "FATAL" || pg.Severity == "PANIC"
}

// first returns the call whose answer is next, or nil.
func (c *Conn) first() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return nil
	}
	return c.calls[0]
}

func (c *Conn) pop() *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return nil
	}
	k := c.calls[0]
	c.calls = slices.Delete(c.calls, 0, 1) // keeps its memory for the next call
	c.used = time.Now()
	return k
}

// Load returns the number of calls in progress, the age of the first of them, and the time since a
// call was last sent or answered.
func (c *Conn) Load() (calls int, first, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) > 0 {
		first = time.Since(c.calls[0].sent)
	}
	return len(c.calls), first, time.Since(c.used)
}

// Err returns why the connection ended or was closed, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errLocked()
}

func (c *Conn) errLocked() error {
	if c.err == nil && c.closed {
		return errClosed
	}
	return c.err
}

// Ended returns a channel that is closed when the connection has ended and all calls are answered.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Cancel makes the server cancel the first call in progress.
func (c *Conn) Cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = c.pg.CancelRequest(ctx)
}

// Close cuts the connection. The goroutine that reads reports the end to the calls.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	_ = c.socket.Close()
}

// End closes the connection and waits until it has ended. The server notices at once.
func (c *Conn) End() {
	c.sending.Lock()
	if c.socket.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		c.front.Send(&pgproto3.Terminate{})
		_ = c.front.Flush()
	}
	c.sending.Unlock()
	c.Close()
	c.baton <- struct{}{} // the goroutine that reads notices
	<-c.baton
	c.fail(errClosed)
}
