package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// A statement is smaller than any buffer on the way. If a write blocks, many statements without
	// a reader are before it. With more than manyCalls statements in progress, a write may take
	// writeLimit.
	manyCalls  = 32
	writeLimit = 5 * time.Second

	// readFor is how long a caller reads answers itself before the watch takes over, and quietFor
	// how long a connection is quiet before the watch starts. Being woken by the watch costs a
	// caller as much time as the server takes for the answer.
	readFor  = 10 * time.Millisecond
	quietFor = 5 * time.Millisecond
)

// A conn is a connection on which many goroutines send statements. Callers read the answers, each
// one also those of others. While no caller reads, a goroutine, the watch, reads, so that the end
// of the connection is noticed at once.
type conn struct {
	pg     *pgconn.PgConn // its origin; now only used to cancel
	socket net.Conn
	front  *pgproto3.Frontend
	pid    int64
	ended  func() // called when the connection has ended and all calls are answered

	write   sync.Mutex // held while a statement is sent, so that answers have the order of calls
	limited bool       // there is a write deadline; guarded by write

	baton      chan struct{} // full: a goroutine reads
	until      time.Time     // the read deadline; guarded by baton
	watchTimer *time.Timer   // starts the watch

	mu       sync.Mutex // guards the fields below
	calls    []*call    // sent and not answered
	used     time.Time  // when a statement was last sent or answered
	watchSet bool       // the timer for the watch is set, or the watch reads
	watchOn  bool       // the watch reads
	err      error      // why it ended
}

// A call is a statement on a conn.
type call struct {
	sent time.Time
	rows [][][]byte
	err  error
	then func(*call) // called with the answer, by the goroutine that reads
}

// newConn takes over an idle connection.
func newConn(pg *pgconn.PgConn) (*conn, error) {
	h, err := pg.Hijack()
	if err != nil {
		return nil, err
	}
	return &conn{pg: pg, socket: h.Conn, front: h.Frontend, pid: int64(h.PID), used: time.Now(),
		baton: make(chan struct{}, 1)}, nil
}

// begin starts the watch. ended is called once, when the connection has ended.
func (c *conn) begin(ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.watchSet = ended, true
	c.watchTimer = time.AfterFunc(0, c.runWatch)
}

// send sends a statement. then is called with its answer or with the end of the connection, but not
// if send returns an error. A caller that does not call await calls watchNow.
func (c *conn) send(v verb, args [][]byte, then func(*call)) error {
	c.write.Lock()
	defer c.write.Unlock()
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	k := &call{sent: time.Now(), then: then}
	c.used = k.sent
	c.calls = append(c.calls, k)
	busy := len(c.calls) > manyCalls
	c.mu.Unlock()
	formats := []int16{1}
	if len(args) == 2 {
		formats = []int16{1, 0}
	}
	c.front.SendBind(&pgproto3.Bind{
		PreparedStatement: string(v), Parameters: args, ParameterFormatCodes: formats, ResultFormatCodes: []int16{1},
	})
	c.front.SendExecute(&pgproto3.Execute{})
	c.front.SendSync(&pgproto3.Sync{})
	var err error
	switch {
	case busy:
		err = c.socket.SetWriteDeadline(k.sent.Add(writeLimit))
	case c.limited:
		err = c.socket.SetWriteDeadline(time.Time{})
	}
	c.limited = busy
	if err == nil {
		err = c.front.Flush()
	}
	if err != nil {
		_ = c.socket.Close() // the reader reports this error to all calls, also to this one
	}
	return nil
}

// await returns when done is closed, or with the error of ctx. It reads answers for a short time if
// no other goroutine does. When the reader has its answer, another waiting caller reads.
func (c *conn) await(ctx context.Context, done <-chan struct{}) error {
	baton := c.baton
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case baton <- struct{}{}:
			if !c.readUntil(done) {
				baton = nil // the answer takes longer: the watch reads
			}
		}
	}
}

// readUntil reads answers until done is closed, and releases the baton. It returns false if that
// took too long.
func (c *conn) readUntil(done <-chan struct{}) bool {
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
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.watchNow()
		return false
	case err != nil:
		c.fail(err)
	}
	c.watchLater()
	return true
}

// watchLater starts the watch after quietFor.
func (c *conn) watchLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.watchSet && c.err == nil {
		c.watchSet = true
		c.watchTimer.Reset(quietFor)
	}
}

// watchNow starts the watch now.
func (c *conn) watchNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.watchSet = true
		c.watchTimer.Reset(0)
	}
}

// runWatch is the watch: it reads one answer, and then leaves reading to callers again.
func (c *conn) runWatch() {
	c.mu.Lock()
	idle := len(c.calls) == 0 && time.Since(c.used) < quietFor
	if idle && c.err == nil {
		c.watchTimer.Reset(quietFor)
	}
	failed := c.err != nil
	c.mu.Unlock()
	if idle || failed {
		return
	}
	select {
	case c.baton <- struct{}{}:
	default:
		c.mu.Lock()
		if !c.watchOn { // a caller reads, for a while
			c.watchTimer.Reset(quietFor)
		}
		c.mu.Unlock()
		return
	}
	c.mu.Lock()
	c.watchOn = true
	c.mu.Unlock()
	c.until = time.Time{}
	err := c.socket.SetReadDeadline(c.until)
	for err == nil {
		err = c.receive(nil)
		c.mu.Lock()
		more := len(c.calls) > 0
		c.watchSet, c.watchOn = more, more
		c.mu.Unlock()
		if !more {
			break
		}
	}
	<-c.baton
	if err != nil {
		c.fail(err)
		return
	}
	c.watchLater()
}

// fail ends the connection, and answers all calls with the error.
func (c *conn) fail(err error) {
	_ = c.socket.Close()
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = &lostError{err}
	left := c.calls
	c.calls = nil
	c.watchTimer.Stop()
	c.watchSet = true
	c.mu.Unlock()
	for _, k := range left {
		k.err = c.err
		k.then(k)
	}
	c.ended()
}

// receive reads until done is closed, or one complete answer if done is nil. The caller has the
// baton.
func (c *conn) receive(done <-chan struct{}) error {
	for {
		m, err := c.front.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			k := c.first()
			if k == nil {
				return errors.New("an answer to nothing")
			}
			k.rows = append(k.rows, copied(m.Values))
		case *pgproto3.ErrorResponse:
			pgErr := pgconn.ErrorResponseToPgError(m)
			if m.SeverityUnlocalized == "FATAL" || m.SeverityUnlocalized == "PANIC" {
				return pgErr
			}
			if k := c.first(); k != nil {
				k.err = pgErr
			}
		case *pgproto3.ReadyForQuery:
			k := c.pop()
			if k == nil {
				return errors.New("an answer to nothing")
			}
			if k.err == nil && k.rows == nil {
				k.rows = [][][]byte{} // answered
			}
			k.then(k)
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
}

// copied copies values, because the next message overwrites them.
func copied(values [][]byte) [][]byte {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	out, buf := make([][]byte, len(values)), make([]byte, 0, size)
	for i, v := range values {
		if v != nil {
			at := len(buf)
			buf = append(buf, v...)
			out[i] = buf[at:len(buf):len(buf)]
		}
	}
	return out
}

func (c *conn) first() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return nil
	}
	return c.calls[0]
}

func (c *conn) pop() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return nil
	}
	k := c.calls[0]
	c.calls[0] = nil
	c.calls = c.calls[1:]
	c.used = time.Now()
	return k
}

// load returns the number of statements in progress, the age of the first of them, and the time
// since a statement was last sent or answered.
func (c *conn) load() (calls int, first, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) > 0 {
		first = time.Since(c.calls[0].sent)
	}
	return len(c.calls), first, time.Since(c.used)
}

// end closes the connection. The server frees its locks as soon as it notices.
func (c *conn) end() {
	c.write.Lock()
	defer c.write.Unlock()
	if c.socket.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		c.front.Send(&pgproto3.Terminate{})
		_ = c.front.Flush()
	}
	_ = c.socket.Close()
}

// answer returns the first column of a call's only row. An error of the server, or an answer of
// another server process, is an error.
func (c *conn) answer(k *call) (value int64, ok bool, err error) {
	if k.err != nil {
		return 0, false, k.err
	}
	if len(k.rows) != 1 || len(k.rows[0]) < 2 {
		return 0, false, errors.New("pgadvisory: the server sent an unexpected answer")
	}
	if pid, _ := number(k.rows[0][1]); pid != c.pid {
		_ = c.socket.Close() // locks on the other process are lost
		return 0, false, fmt.Errorf("%w: it was served by process %d and is now by %d", ErrPooler,
			c.pid, pid)
	}
	value, ok = number(k.rows[0][0])
	return value, ok, nil
}
