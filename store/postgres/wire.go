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

// An exchange is a transaction that is sent, and what has come back so far.
type exchange struct {
	batch  *batch
	groups []group
	at     int // of which group answers are read
	rows   [][][]byte
	err    error // the first that the server told
}

// attempt runs calls. If the server has closed the connection before it did any of them, they go
// out on a new one. If it fails, the server has done none of them, or it is not known.
func (l *lane) attempt(calls []*call) error {
	kept := l.conn != nil
	err := l.exchange(calls)
	if kept && unserved(calls, err) {
		err = l.exchange(calls)
	}
	return err
}

// unserved reports whether the server closed the connection and has done none of the calls.
func unserved(calls []*call, err error) bool {
	return closing[code(err)] && !slices.ContainsFunc(calls, func(c *call) bool { return c.answered })
}

// exchange sends calls and reads the answers.
func (l *lane) exchange(calls []*call) error {
	x := &exchange{groups: grouped(calls)}
	if err := l.connect(x.groups); err != nil {
		l.drop()
		return unavailable(err) // nothing was sent
	}
	err := l.post(x, laneLimit)
	if err == nil {
		err = l.read(x)
	}
	return l.end(x, err)
}

// post sends calls. The connection is bounded from now on, and cut may end what is under way.
//
// The messages go past pgx, which would close a connection whose answer is late, and ask for columns that are known.
func (l *lane) post(x *exchange, limit time.Duration) error {
	l.mu.Lock()
	l.wire = l.conn.PgConn().Conn()
	l.limit(limit)
	if l.closed {
		l.cut()
	}
	l.mu.Unlock()
	front := l.conn.PgConn().Frontend()
	for _, g := range x.groups {
		name := l.prepared[g.st]
		if l.server.pooled {
			name = ""
			front.SendParse(&pgproto3.Parse{Query: g.st.sql})
		}
		front.SendBind(&pgproto3.Bind{PreparedStatement: name, Parameters: g.args, ParameterFormatCodes: g.st.formats, ResultFormatCodes: g.st.results})
		front.SendExecute(&pgproto3.Execute{})
	}
	front.SendSync(&pgproto3.Sync{})
	return front.Flush()
}

// read reads until all is answered. After a deadline it can be called again.
func (l *lane) read(x *exchange) error {
	front := l.conn.PgConn().Frontend()
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
			x.groups[x.at].deal(x.rows)
			x.rows = nil
			x.at++
		case *pgproto3.ErrorResponse:
			told := pgconn.ErrorResponseToPgError(m)
			if x.err == nil {
				x.err = told
			}
			if fatal(told) {
				return told
			}
		case *pgproto3.NotificationResponse:
			l.s.feed.news(m.Channel, m.Payload)
		case *pgproto3.ReadyForQuery:
			return nil
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

// end is after the answers, or after an error of the connection, which is given up then. It returns what became of the calls.
func (l *lane) end(x *exchange, err error) error {
	l.mu.Lock()
	l.wire = nil
	if l.off { // too late: what was under way is over
		l.off, l.until, l.bounded = false, time.Time{}, true
	}
	l.mu.Unlock()
	l.used = time.Now()
	changed := outdated[code(x.err)]
	if err != nil || changed || l.ctx.Err() != nil {
		l.drop()
	}
	if changed {
		l.s.ready.Store(nil) // the next connection looks at the server and the schema again
	}
	switch {
	case x.err != nil:
		return x.err
	case err != nil:
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// late reports whether an answer may still come.
func (l *lane) late(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.off
}

// extend gives what is under way more time, unless it was cut off.
func (l *lane) extend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.off {
		l.limit(d)
	}
}

// limit bounds reading, and for as long as laneLimit writing too. A limit that has most of its time left is not set again, which would cost
// more than all the rest of a call does here. The lock is held.
func (l *lane) limit(d time.Duration) {
	if d < laneLimit && l.bounded {
		// A caller that is held up by others for longer than it attends has still to send what it has.
		l.bounded = false
		_ = l.wire.SetWriteDeadline(time.Time{})
	}
	now := time.Now()
	if left := l.until.Sub(now); d/2 <= left && left <= d {
		return
	}
	l.until = now.Add(d)
	if d < laneLimit {
		_ = l.wire.SetReadDeadline(l.until)
		return
	}
	l.bounded = true
	_ = l.wire.SetDeadline(l.until) // if it cannot be set, the next write fails
}

// cut ends what is under way. The lock is held.
func (l *lane) cut() {
	if l.wire != nil {
		l.off = true
		_ = l.wire.SetDeadline(time.Unix(1, 0))
	}
}

// laneSettings are those that functions would have to make in every call, and plans that are made once. A server that has read a part of a batch keeps
// the keys in it until it knows that the client is gone: if that says nothing any more, after 19 s, and not after the two hours of most systems.
const laneSettings = "set search_path = pg_catalog; set lock_timeout = '200ms'; set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off; " +
	"set enable_hashjoin = off; set enable_mergejoin = off; set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 3; set tcp_keepalives_count = 3"

// connect sees to it that there is a connection, that it is alive and that it knows the statements.
func (l *lane) connect(groups []group) error {
	ctx, cancel := l.ctx, func() {}
	if l.conn == nil || time.Since(l.used) > stale {
		ctx, cancel = context.WithTimeout(l.ctx, laneLimit)
	}
	defer cancel()
	if l.conn != nil && l.conn.IsClosed() {
		l.drop()
	}
	if l.conn != nil && time.Since(l.used) > stale {
		l.unlimited()
		probe, cancel := context.WithTimeout(ctx, stale)
		err := l.conn.PgConn().Ping(probe)
		cancel()
		if err != nil {
			l.drop()
		}
	}
	if l.conn == nil {
		conn, err := l.s.connect(ctx)
		if err != nil {
			return err
		}
		l.conn, l.prepared = conn, map[*statement]string{}
		if l.server, err = l.s.prepare(ctx, conn); err != nil {
			return err
		}
		if !l.server.pooled {
			if _, err := conn.PgConn().Exec(ctx, laneSettings).ReadAll(); err != nil {
				return definite(err, false)
			}
		}
	}
	if l.server.pooled {
		return nil // the next statement may find another backend, which knows none of ours
	}
	for _, g := range groups {
		if _, ok := l.prepared[g.st]; ok {
			continue
		}
		l.unlimited()
		name := newName()
		if _, err := l.conn.PgConn().Prepare(ctx, name, g.st.sql, nil); err != nil {
			return definite(err, false)
		}
		l.prepared[g.st] = name
	}
	return nil
}

// unlimited leaves the connection to pgx, which sets no deadline of its own.
func (l *lane) unlimited() {
	if !l.until.IsZero() || l.bounded {
		l.until, l.bounded = time.Time{}, false
		_ = l.conn.PgConn().Conn().SetDeadline(l.until)
	}
}

func (l *lane) drop() {
	if l.conn != nil {
		l.unlimited()
		closeConn(l.conn)
		l.conn, l.server, l.prepared, l.hears = nil, nil, nil, false
	}
}
