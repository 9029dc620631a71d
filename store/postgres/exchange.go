package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/sqlrow"
)

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
	return (closing[code(err)] || errors.Is(err, errUnsent)) &&
		!slices.ContainsFunc(calls, func(c *call) bool { return c.answered })
}

// exchange sends calls and reads the answers.
func (b *batcher) exchange(calls []*call) error {
	if err := b.connect(); err != nil {
		b.drop()
		return sqlrow.Unavailable(err) // nothing was sent
	}
	return b.roundTrip(&batch{groups: grouped(calls)})
}

func (b *batcher) roundTrip(x *batch) error {
	b.limit.Reset(batchLimit) // also for writing
	if b.send(x) {
		b.await(x)
	}
	return b.end(x)
}

// send sends a batch, with the statements that are not prepared yet. It returns false if the
// connection has ended. From now on cutLocked can interrupt it.
func (b *batcher) send(x *batch) bool {
	x.Done = make(chan struct{})
	for _, g := range x.groups {
		st := pgwire.Statement{Name: b.prepared[g.st], Only: g.calls == nil,
			Args: g.args, Formats: g.st.formats, Results: g.st.results}
		if st.Name == "" {
			st.SQL = g.st.sql
			if !b.server.pooled { // the next one may run on another backend
				st.Name = newName()
			}
		}
		x.Add(st)
	}
	b.mu.Lock()
	b.active = b.conn
	if b.closed {
		b.cutLocked()
	}
	b.mu.Unlock()
	x.Lost = b.conn.Send(&x.Call)
	x.unsent = x.Lost != nil
	return !x.unsent
}

// await waits until all calls are answered or the connection has ended.
func (b *batcher) await(x *batch) { _ = b.conn.Await(context.Background(), x.Done) }

// end gives the calls their answers after a batch. It closes a failed connection, and returns
// the error for the calls.
func (b *batcher) end(x *batch) error {
	b.limit.Stop()
	b.mu.Lock()
	b.active = nil
	b.mu.Unlock()
	for i, g := range x.groups {
		st := &x.Statements[i]
		if st.Parsed && !b.server.pooled {
			b.prepared[g.st] = st.Name
		}
		if st.Done {
			g.assign(st.Rows, b.conn)
		}
	}
	changed := outdated[code(x.Err)]
	if changed {
		b.s.ready.Store(nil) // the next connection checks the server and the schema again
	}
	if x.Lost != nil || changed || b.ctx.Err() != nil {
		b.drop()
	}
	switch {
	case x.unsent:
		return fmt.Errorf("%w: %w", errUnsent, x.Lost)
	case x.Err != nil:
		return x.Err
	case x.Lost != nil:
		return fmt.Errorf("%w: %w", errLost, x.Lost)
	}
	return nil
}

// cut interrupts the batch in progress.
func (b *batcher) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cutLocked()
}

func (b *batcher) cutLocked() {
	if b.active != nil {
		b.active.Close()
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

// connect ensures that there is a connection, and that it is alive.
func (b *batcher) connect() error {
	if b.conn != nil && b.conn.Err() == nil && !b.isStale() {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, batchLimit)
	defer cancel()
	if b.conn != nil {
		probe, cancel := context.WithTimeout(ctx, stale)
		err := b.conn.Ping(probe)
		cancel()
		if err == nil {
			return nil
		}
		b.drop()
	}
	conn, err := b.s.connect(ctx)
	if err != nil {
		return err
	}
	if err := b.adopt(ctx, conn); err != nil {
		closeConn(conn)
		return err
	}
	return nil
}

// adopt checks a new connection and takes it over.
func (b *batcher) adopt(ctx context.Context, conn *pgx.Conn) (err error) {
	if b.server, err = b.s.prepare(ctx, conn); err != nil {
		return err
	}
	if !b.server.pooled {
		if _, err := conn.PgConn().Exec(ctx, connSettings).ReadAll(); err != nil {
			return definite(err, false)
		}
	}
	b.prepared = map[*statement]string{}
	b.conn, err = pgwire.New(conn.PgConn(), b.s.listener.deliver)
	return err
}

// isStale reports whether the connection has been idle for so long that it may have been lost.
func (b *batcher) isStale() bool {
	_, _, idle := b.conn.Load()
	return idle > stale
}

// prepare connects and prepares statements.
func (b *batcher) prepare(sts []*statement) error {
	if err := b.connect(); err != nil || b.server.pooled {
		return err
	}
	x := &batch{}
	for _, st := range sts {
		x.groups = append(x.groups, group{st: st})
	}
	return b.roundTrip(x)
}

func (b *batcher) drop() {
	if b.conn != nil {
		b.conn.End()
		b.conn = nil
	}
}
