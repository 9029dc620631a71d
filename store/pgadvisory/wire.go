package pgadvisory

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// writeLimit bounds how long a statement may take to leave. A statement is smaller than any buffer on the way, so one that
// does not fit stands behind thousands that nobody reads.
const writeLimit = 5 * time.Second

// A wire is a connection that many goroutines send statements on. One goroutine reads the answers, and so notices at once
// when the connection ends.
type wire struct {
	pg    *pgconn.PgConn // how it was made; it is not used any more but to cancel
	conn  net.Conn
	front *pgproto3.Frontend
	pid   int64

	write sync.Mutex // held while a statement is sent, so that answers come in the order of calls

	mu    sync.Mutex // guards what follows
	calls []*call    // sent and not answered
	used  time.Time  // when a statement was last sent or answered
	err   error      // why it ended
}

// A call is a statement on a wire.
type call struct {
	sent time.Time
	rows [][][]byte
	err  error
	then func(*call) // told of the answer, by the goroutine that reads
}

// newWire takes over a connection on which nothing is under way. When it ends, over is called.
func newWire(pg *pgconn.PgConn) (*wire, error) {
	h, err := pg.Hijack()
	if err != nil {
		return nil, err
	}
	return &wire{pg: pg, conn: h.Conn, front: h.Frontend, pid: int64(h.PID), used: time.Now()}, nil
}

// send sends a statement. Its answer, or the end of the wire, is told to then; on an error it is not.
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
	err := w.conn.SetWriteDeadline(c.sent.Add(writeLimit))
	if err == nil {
		err = w.front.Flush()
	}
	if err != nil {
		_ = w.conn.Close() // the reader tells all whose answers are missing, this one too
	}
	return nil
}

// read reads answers until the connection ends, and returns why it did.
func (w *wire) read() error {
	err := w.receive()
	_ = w.conn.Close()
	w.mu.Lock()
	w.err = &lostError{err}
	left := w.calls
	w.calls = nil
	w.mu.Unlock()
	for _, c := range left {
		c.err = w.err
		c.then(c)
	}
	return err
}

func (w *wire) receive() error {
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
		return 0, false, fmt.Errorf("%w: it was served by process %d and is now by %d", errPooler, w.pid, pid)
	}
	value, ok = number(c.rows[0][0])
	return value, ok, nil
}
