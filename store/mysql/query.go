package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// query runs one statement and returns its rows: those of its first result. It has read everything
// that the server sends when it returns nil, so the transaction is committed.
func (s *Store) query(ctx context.Context, p *pool, text string) ([][][]byte, error) {
	var rows [][][]byte
	err := s.run(ctx, p, func(ctx context.Context, c *sql.Conn) (err error) {
		rows, err = read(ctx, c, text)
		return err
	})
	return rows, err
}

// raw runs a call with prepared statements, each of which is a transaction of its own.
func (s *Store) raw(ctx context.Context, call func(context.Context, *conn) error) error {
	return s.run(ctx, s.claims, func(ctx context.Context, c *sql.Conn) error {
		return c.Raw(func(dc any) error { return call(ctx, dc.(*conn)) })
	})
}

// attempts is how often a call is sent at most: each time but the last the connection turned out to
// be closed before anything was sent.
const attempts = 4

// run runs a call on a connection, after a check of the tables. Functions of database/sql that
// repeat a call by themselves are not used: a call is sent again only if the client reports that
// nothing of it was sent. A connection with an error is closed, because a transaction may be open
// on it.
func (s *Store) run(ctx context.Context, p *pool, call func(context.Context, *sql.Conn) error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	for try := 1; ; try++ {
		if s.closed.Load() {
			return errClosed
		}
		c, err := p.Conn(endless{ctx}) //nolint:contextcheck // only Connect waits, and it knows ctx
		if err != nil {
			return connecting(ctx, err)
		}
		if _, err := s.prepare(ctx, c); err != nil {
			discard(c)
			return err
		}
		cut, err := interruptibly(ctx, c, call)
		if cut {
			discard(c)
		} else {
			_ = c.Close() // its own error would come after an answer
		}
		if err == nil {
			return nil
		}
		if errors.Is(err, sqldriver.ErrBadConn) {
			if try < attempts && ctx.Err() == nil {
				continue
			}
			return sqlrow.Unavailable(err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return definite(err)
	}
}

// discard closes a connection instead of returning it to its pool.
func discard(c *sql.Conn) {
	_ = c.Raw(func(any) error { return sqldriver.ErrBadConn })
	_ = c.Close()
}

// read reads the rows of a statement, and everything after them.
func read(ctx context.Context, c *sql.Conn, text string) ([][][]byte, error) {
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all [][][]byte
	for rows.Next() {
		cells, to := make([][]byte, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		all = append(all, cells)
	}
	for rows.NextResultSet() { // the end of a CALL: its commit comes after its rows
	}
	return all, rows.Err()
}

// A reader reads the columns of a row in order.
type reader struct{ sqlrow.Reader }

// claim reads the columns of a claim or a queue entry, from waiting to value.
func (r *reader) claim(key string) driver.Claim {
	c := driver.Claim{Key: key, Waiting: r.Number() != 0}
	c.Owner = tag(r.Next())
	c.Weight, c.Limit, c.Fence = r.Number(), r.Number(), uint64(max(r.Number(), 0))
	c.Held, c.Left = r.Span(), r.Span()
	c.Kept = r.Number() != 0
	c.Holder, c.Task = r.Text(), r.Text()
	c.Meta = sqlrow.DecodeMeta(r.Next())
	if v := r.Next(); len(v) > 0 {
		c.Value = v
	}
	return c
}
