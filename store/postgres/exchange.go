package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// An exchange is a transaction that was sent, and the part of the answer received so far.
type exchange struct {
	batch  *batch
	groups []group
	at     int // the group whose answers are being read
	rows   [][][]byte
	err    error // the first error that the server reported
}

// attempt runs calls. If the server closed the connection before it executed any of them, they go
// out on a new one. After an error, either the server has executed none of them, or the outcome is
// unknown.
func (b *batcher) attempt(calls []*call) error {
	kept := b.conn != nil
	err := b.exchange(calls)
	if kept && unserved(calls, err) {
		err = b.exchange(calls)
	}
	return err
}

// unserved reports whether the server closed the connection without executing any of the calls.
func unserved(calls []*call, err error) bool {
	return closing[code(err)] && !slices.ContainsFunc(calls,
		func(c *call) bool { return c.answered })
}

// exchange sends calls and reads the answers.
func (b *batcher) exchange(calls []*call) error {
	x := &exchange{groups: grouped(calls)}
	if err := b.connect(x.groups); err != nil {
		b.drop()
		return unavailable(err) // nothing was sent
	}
	err := b.write(x, batchLimit)
	if err == nil {
		err = b.read(x)
	}
	return b.end(x, err)
}

// write sends calls. From now on the connection has a deadline, and cut can interrupt the exchange.
//
// The messages bypass pgx. pgx would close a connection whose answer is late, and request a
// description of known columns.
func (b *batcher) write(x *exchange, limit time.Duration) error {
	b.mu.Lock()
	b.active = b.conn.PgConn().Conn()
	b.setDeadline(limit)
	if b.closed {
		b.cut()
	}
	b.mu.Unlock()
	front := b.conn.PgConn().Frontend()
	for _, g := range x.groups {
		name := b.prepared[g.st]
		if b.server.pooled {
			name = ""
			front.SendParse(&pgproto3.Parse{Query: g.st.sql})
		}
		front.SendBind(&pgproto3.Bind{PreparedStatement: name, Parameters: g.args,
			ParameterFormatCodes: g.st.formats, ResultFormatCodes: g.st.results})
		front.SendExecute(&pgproto3.Execute{})
	}
	front.SendSync(&pgproto3.Sync{})
	return front.Flush()
}

// read reads until all calls are answered. It can be called again after a deadline.
func (b *batcher) read(x *exchange) error {
	front := b.conn.PgConn().Frontend()
	for {
		m, err := front.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			x.rows = append(x.rows, copied(m.Values))
		case *pgproto3.CommandComplete:
			if x.at == len(x.groups) {
				return errAnswer
			}
			x.groups[x.at].assign(x.rows)
			x.rows = nil
			x.at++
		case *pgproto3.ErrorResponse:
			pgErr := pgconn.ErrorResponseToPgError(m)
			if x.err == nil {
				x.err = pgErr
			}
			if fatal(pgErr) {
				return pgErr
			}
		case *pgproto3.NotificationResponse:
			b.s.listener.deliver(m.Channel, m.Payload)
		case *pgproto3.ReadyForQuery:
			return nil
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

// end finishes an exchange after the answers or after an error of the connection. It closes a
// failed connection, and returns the error for the calls.
func (b *batcher) end(x *exchange, err error) error {
	b.mu.Lock()
	b.active = nil
	if b.cutOff { // too late: the exchange has ended
		b.cutOff, b.deadline, b.writeLimited = false, time.Time{}, true
	}
	b.mu.Unlock()
	b.used = time.Now()
	changed := outdated[code(x.err)]
	if err != nil || changed || b.ctx.Err() != nil {
		b.drop()
	}
	if changed {
		b.s.ready.Store(nil) // the next connection checks the server and the schema again
	}
	switch {
	case x.err != nil:
		return x.err
	case err != nil:
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// late reports whether the answer may still arrive.
func (b *batcher) late(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.cutOff
}

// extend gives the exchange in progress more time, unless it was cut off.
func (b *batcher) extend(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.cutOff {
		b.setDeadline(d)
	}
}

// setDeadline limits reading, and with batchLimit also writing. A deadline that has most of its
// time left is not set again: setting it costs more than everything else in a call. b.mu is held.
func (b *batcher) setDeadline(d time.Duration) {
	if d < batchLimit && b.writeLimited {
		// A caller that is delayed for longer than directFor must still be able to send its call.
		b.writeLimited = false
		_ = b.active.SetWriteDeadline(time.Time{})
	}
	now := time.Now()
	if left := b.deadline.Sub(now); d/2 <= left && left <= d {
		return
	}
	b.deadline = now.Add(d)
	if d < batchLimit {
		_ = b.active.SetReadDeadline(b.deadline)
		return
	}
	b.writeLimited = true
	_ = b.active.SetDeadline(b.deadline) // after an error here the next write fails
}

// cut interrupts the exchange in progress. b.mu is held.
func (b *batcher) cut() {
	if b.active != nil {
		b.cutOff = true
		_ = b.active.SetDeadline(time.Unix(1, 0))
	}
}

// connSettings are settings that functions would otherwise make in every call, and settings for
// plans that are made once. A server that has read a part of a batch keeps the keys locked until it
// notices that the client is gone. With these keepalives it notices a silent client after 19 s, not
// after the two hours of most systems.
const connSettings = `set search_path = pg_catalog;
	set lock_timeout = '200ms';
	set plan_cache_mode = force_generic_plan;
	set enable_seqscan = off;
	set enable_bitmapscan = off;
	set enable_hashjoin = off;
	set enable_mergejoin = off;
	set tcp_keepalives_idle = 10;
	set tcp_keepalives_interval = 3;
	set tcp_keepalives_count = 3`

// connect ensures that there is a connection, that it is alive, and that the statements are
// prepared.
func (b *batcher) connect(groups []group) error {
	ctx, cancel := b.ctx, func() {}
	if b.conn == nil || time.Since(b.used) > stale {
		ctx, cancel = context.WithTimeout(b.ctx, batchLimit)
	}
	defer cancel()
	if b.conn != nil && b.conn.IsClosed() {
		b.drop()
	}
	if b.conn != nil && time.Since(b.used) > stale {
		b.clearDeadlines()
		probe, cancel := context.WithTimeout(ctx, stale)
		err := b.conn.PgConn().Ping(probe)
		cancel()
		if err != nil {
			b.drop()
		}
	}
	if b.conn == nil {
		conn, err := b.s.connect(ctx)
		if err != nil {
			return err
		}
		b.conn, b.prepared = conn, map[*statement]string{}
		if b.server, err = b.s.prepare(ctx, conn); err != nil {
			return err
		}
		if !b.server.pooled {
			if _, err := conn.PgConn().Exec(ctx, connSettings).ReadAll(); err != nil {
				return definite(err, false)
			}
		}
	}
	if b.server.pooled {
		return nil // the next statement may run on another backend, without our statements
	}
	for _, g := range groups {
		if _, ok := b.prepared[g.st]; ok {
			continue
		}
		b.clearDeadlines()
		name := newName()
		if _, err := b.conn.PgConn().Prepare(ctx, name, g.st.sql, nil); err != nil {
			return definite(err, false)
		}
		b.prepared[g.st] = name
	}
	return nil
}

// clearDeadlines removes the deadlines. pgx sets none of its own.
func (b *batcher) clearDeadlines() {
	if !b.deadline.IsZero() || b.writeLimited {
		b.deadline, b.writeLimited = time.Time{}, false
		_ = b.conn.PgConn().Conn().SetDeadline(b.deadline)
	}
}

func (b *batcher) drop() {
	if b.conn != nil {
		b.clearDeadlines()
		closeConn(b.conn)
		b.conn, b.server, b.prepared, b.listening = nil, nil, nil, false
	}
}
