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
	// A statement is smaller than any buffer on the way, so one that does not fit stands behind many that nobody reads. Where
	// crowd are under way, one may take writeLimit to leave.
	crowd      = 32
	writeLimit = 5 * time.Second

	// attendFor is how long a caller reads answers itself before it leaves that to the watch, and restFor how
	// long a connection rests before the watch begins. To be woken by the watch costs a caller as much as the server takes for the answer.
	attendFor = 10 * time.Millisecond
	restFor   = 5 * time.Millisecond
)

// A wire is a connection that many goroutines send statements on. Callers read the answers, each also those of others. While
// none does, a goroutine watches, and so notices at once when the connection ends.
type wire struct {
	pg    *pgconn.PgConn // how it was made; it is not used any more but to cancel
	conn  net.Conn
	front *pgproto3.Frontend
	pid   int64
	over  func() // called when the connection has ended and all calls are answered

	write   sync.Mutex // held while a statement is sent, so that answers come in the order of calls
	limited bool       // there is a limit for writing; guarded by write

	baton chan struct{} // full: somebody reads
	until time.Time     // the limit for reading; guarded by baton
	watch *time.Timer   // begins the watch

	mu    sync.Mutex // guards what follows
	calls []*call    // sent and not answered
	used  time.Time  // when a statement was last sent or answered
	rests bool       // the timer for the watch is set, or the watch is on
	on    bool       // the watch is on
	err   error      // why it ended
}

// A call is a statement on a wire.
type call struct {
	sent time.Time
	rows [][][]byte
	err  error
	then func(*call) // told of the answer, by the goroutine that reads
}

// newWire takes over a connection on which nothing is under way.
func newWire(pg *pgconn.PgConn) (*wire, error) {
	h, err := pg.Hijack()
	if err != nil {
		return nil, err
	}
	return &wire{pg: pg, conn: h.Conn, front: h.Frontend, pid: int64(h.PID), used: time.Now(), baton: make(chan struct{}, 1)}, nil
}

// begin starts the watch. over is called once, when the connection has ended.
func (w *wire) begin(over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.rests = over, true
	w.watch = time.AfterFunc(0, w.stand)
}

// send sends a statement. Its answer, or the end of the wire, is told to then; on an error it is not. Who sends and does not await calls listen.
func (w *wire) send(v verb, args [][]byte, then func(*call)) error {
	w.write.Lock()
	defer w.write.Unlock()
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return w.err
	}
	c := &call{sent: time.Now(), then: then}
	w.used = c.sent
	w.calls = append(w.calls, c)
	busy := len(w.calls) > crowd
	w.mu.Unlock()
	formats := []int16{1}
	if len(args) == 2 {
		formats = []int16{1, 0}
	}
	w.front.SendBind(&pgproto3.Bind{
		PreparedStatement: string(v), Parameters: args, ParameterFormatCodes: formats, ResultFormatCodes: []int16{1},
	})
	w.front.SendExecute(&pgproto3.Execute{})
	w.front.SendSync(&pgproto3.Sync{})
	var err error
	switch {
	case busy:
		err = w.conn.SetWriteDeadline(c.sent.Add(writeLimit))
	case w.limited:
		err = w.conn.SetWriteDeadline(time.Time{})
	}
	w.limited = busy
	if err == nil {
		err = w.front.Flush()
	}
	if err != nil {
		_ = w.conn.Close() // who reads tells all whose answers are missing, this one too
	}
	return nil
}

// await returns when done is closed, or with the error of ctx. Meanwhile it reads answers, if nobody else does, for a short while. One
// of those who wait goes on when another has what it wants.
func (w *wire) await(ctx context.Context, done <-chan struct{}) error {
	baton := w.baton
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case baton <- struct{}{}:
			if !w.attend(done) {
				baton = nil // the answer takes its time: the watch reads
			}
		}
	}
}

// attend reads answers until done is closed, and gives the baton back. It reports false if that took too long.
func (w *wire) attend(done <-chan struct{}) bool {
	select {
	case <-done: // by whoever had the baton before
		<-w.baton
		return true
	default:
	}
	if now := time.Now(); w.until.Sub(now) < attendFor/2 {
		w.until = now.Add(attendFor)
		if err := w.conn.SetReadDeadline(w.until); err != nil {
			w.until = time.Time{}
		}
	}
	err := w.receive(done)
	<-w.baton
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.listen()
		return false
	case err != nil:
		w.fail(err)
	}
	w.rest()
	return true
}

// rest has the watch begin when the wire has rested.
func (w *wire) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.rests && w.err == nil {
		w.rests = true
		w.watch.Reset(restFor)
	}
}

// listen has the watch begin now.
func (w *wire) listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.rests = true
		w.watch.Reset(0)
	}
}

// stand is the watch: it reads until something was read, and then leaves it to callers again.
func (w *wire) stand() {
	w.mu.Lock()
	idle := len(w.calls) == 0 && time.Since(w.used) < restFor
	if idle && w.err == nil {
		w.watch.Reset(restFor)
	}
	ended := w.err != nil
	w.mu.Unlock()
	if idle || ended {
		return
	}
	select {
	case w.baton <- struct{}{}:
	default:
		w.mu.Lock()
		if !w.on { // somebody reads, for a while
			w.watch.Reset(restFor)
		}
		w.mu.Unlock()
		return
	}
	w.mu.Lock()
	w.on = true
	w.mu.Unlock()
	w.until = time.Time{}
	err := w.conn.SetReadDeadline(w.until)
	for err == nil {
		err = w.receive(nil)
		w.mu.Lock()
		more := len(w.calls) > 0
		w.rests, w.on = more, more
		w.mu.Unlock()
		if !more {
			break
		}
	}
	<-w.baton
	if err != nil {
		w.fail(err)
		return
	}
	w.rest()
}

// fail ends the wire, and tells all who wait for an answer.
func (w *wire) fail(err error) {
	_ = w.conn.Close()
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return
	}
	w.err = &lostError{err}
	left := w.calls
	w.calls = nil
	w.watch.Stop()
	w.rests = true
	w.mu.Unlock()
	for _, c := range left {
		c.err = w.err
		c.then(c)
	}
	w.over()
}

// receive reads until done is closed, or if it is nil, until one answer is whole. It is called with the baton.
func (w *wire) receive(done <-chan struct{}) error {
	for {
		m, err := w.front.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			c := w.first()
			if c == nil {
				return errors.New("an answer to nothing")
			}
			c.rows = append(c.rows, copied(m.Values))
		case *pgproto3.ErrorResponse:
			told := pgconn.ErrorResponseToPgError(m)
			if m.SeverityUnlocalized == "FATAL" || m.SeverityUnlocalized == "PANIC" {
				return told
			}
			if c := w.first(); c != nil {
				c.err = told
			}
		case *pgproto3.ReadyForQuery:
			c := w.pop()
			if c == nil {
				return errors.New("an answer to nothing")
			}
			if c.err == nil && c.rows == nil {
				c.rows = [][][]byte{} // answered
			}
			c.then(c)
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

// copied copies values, which the next message overwrites.
func copied(values [][]byte) [][]byte {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	out, room := make([][]byte, len(values)), make([]byte, 0, size)
	for i, v := range values {
		if v != nil {
			at := len(room)
			room = append(room, v...)
			out[i] = room[at:len(room):len(room)]
		}
	}
	return out
}

func (w *wire) first() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		return nil
	}
	return w.calls[0]
}

func (w *wire) pop() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) == 0 {
		return nil
	}
	c := w.calls[0]
	w.calls[0] = nil
	w.calls = w.calls[1:]
	w.used = time.Now()
	return c
}

// load tells how many statements are under way, since when the first of them is, and for how long nothing has been sent or answered.
func (w *wire) load() (calls int, first, idle time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.calls) > 0 {
		first = time.Since(w.calls[0].sent)
	}
	return len(w.calls), first, time.Since(w.used)
}

// end ends the connection from this side. The server frees what it held as soon as it notices.
func (w *wire) end() {
	w.write.Lock()
	defer w.write.Unlock()
	if w.conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		w.front.Send(&pgproto3.Terminate{})
		_ = w.front.Flush()
	}
	_ = w.conn.Close()
}

// answer is the first column of a call's only row, and the server's process. An error of the server's, or a wrong
// process, is an error.
func (w *wire) answer(c *call) (value int64, ok bool, err error) {
	if c.err != nil {
		return 0, false, c.err
	}
	if len(c.rows) != 1 || len(c.rows[0]) < 2 {
		return 0, false, errors.New("pgadvisory: the server's answer is not understood")
	}
	if pid, _ := number(c.rows[0][1]); pid != w.pid {
		_ = w.conn.Close() // what was held elsewhere is lost
		return 0, false, fmt.Errorf("%w: it was served by process %d and is now by %d", ErrPooler, w.pid, pid)
	}
	value, ok = number(c.rows[0][0])
	return value, ok, nil
}
