package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

const (
	// sweepOdds is the average number of grants between two sweeps. A sweep checks 200 keys, more
	// than that number of grants can have added.
	sweepOdds = 64

	// poolLimit is how long a call waits for a connection of the pool.
	poolLimit = 2 * time.Second
)

// statements holds the SQL of all operations for one schema.
type statements struct {
	acquire, release, renew, renewAll, show, list, breaks, watch, sweep, inspect, nothing statement

	listen [2]statement // to the channel of the schema, and to that of this process
}

func (n *names) statements() statements {
	text := []int16{0} // one format for all parameters or columns
	const thirteen = `($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`
	return statements{
		acquire: statement{
			sql:     n.sql(`select @schema@.attempt` + thirteen),
			formats: []int16{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, results: text,
			all: &statement{
				sql: n.sql(`select @schema@.attempt_all` + thirteen), formats: text, results: text,
			},
			order: 2,
		},
		release: statement{
			sql:     n.sql(`select @schema@.release($1, $2, $3)`),
			formats: []int16{0, 0, 0}, results: text,
			all: &statement{
				sql: n.sql(`select @schema@.release_all($1, $2, $3)`), formats: text, results: text,
			},
			order: 1,
		},
		renew: statement{
			sql:     n.sql(`select answer, behind, reason from @schema@.renew($1, $2, $3, $4, $5)`),
			formats: []int16{0, 0, 0, 1, 0}, results: text,
		},
		renewAll: statement{
			sql:     n.sql(`select answer, behind, reason from @schema@.renew_all($1, $2, $3)`),
			formats: text, results: text,
		},
		show:   n.selectInfo(`@schema@.show($1)`),
		list:   n.selectInfo(`@schema@.list($1, $2)`),
		breaks: n.selectInfo(`@schema@.break($1, $2, $3)`),
		watch: statement{
			sql: n.sql(`select @schema@.watch($1, $2)`), formats: text, results: text,
		},
		// If a crash of the server undoes a sweep, another sweep does the work. So the commit does
		// not wait for the disk.
		sweep: statement{
			sql:     n.sql(`select set_config('synchronous_commit', 'off', true), @schema@.sweep()`),
			results: text,
		},
		inspect: statement{sql: n.sql(inspectSQL), results: text},
		nothing: statement{sql: "select"},
	}
}

// selectInfo returns a statement that selects from a function that returns claim_info. It names the
// columns, because later functions may return more. The value is binary.
func (n *names) selectInfo(function string) statement {
	return statement{
		sql: n.sql(`select key, owner, weight, "limit", fence, holder, task, meta, value,
			held, "left", waiting, kept from ` + function),
		formats: []int16{0}, results: []int16{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},
	}
}

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return driver.Result{}, err
	}
	owner, err := ownerOf(r.Owner)
	if err != nil {
		return driver.Result{}, err
	}
	c := &call{st: &s.st.acquire, key: sqlrow.Storable(r.Key)}
	c.args = [][]byte{
		[]byte(c.key), []byte(owner), appendInterval(nil, r.TTL),
		number(r.Weight), number(r.Limit), nil, number(int64(r.Floor)),
		[]byte(sqlrow.Storable(r.Holder)), []byte(sqlrow.Storable(r.Task)), encodeMeta(r.Meta), r.Value, nil, []byte("f"),
	}
	c.args[11] = []byte{}
	if r.QueueTTL > 0 {
		c.args[5] = appendInterval(nil, r.QueueTTL)
		c.args[11] = []byte(s.listener.address())
	}
	if len(r.Value) == 0 {
		c.args[10] = nil // the tables store no empty value
	}
	var res driver.Result
	err = s.runClaim(ctx, c, 12, func(rows [][][]byte) (err error) {
		res, err = s.result(r, rows)
		return err
	})
	if res.Granted {
		s.renews.open(&s.st.renew, &s.st.renewAll) //nolint:contextcheck // it runs in the background
		if rand.N(sweepOdds) == 0 {                //nolint:gosec // it needs no secret randomness
			s.sweep() //nolint:contextcheck // it runs in the background
		}
	}
	return res, err
}

// maxOwner bounds an owner as stored: key and owner must fit into one index entry.
const maxOwner = 1024

func ownerOf(owner string) (string, error) {
	if owner = sqlrow.Storable(owner); len(owner) > maxOwner {
		return "", fmt.Errorf("%w: an owner of %d bytes is longer than %d bytes", driver.ErrInvalid,
			len(owner), maxOwner)
	}
	return owner, nil
}

// runClaim runs a call on the connection for claims, and reads its answer. wait is the index of the
// argument that says whether to wait. If another transaction has the key, it may be granting the
// key to this owner, or it has locked the claim, and the call waits for it on another connection:
// waiting in the batcher would delay all other calls. A brief store has few others, and waits
// there: the first calls of many processes come together, and two connections of each would fill
// the server.
func (s *Store) runClaim(ctx context.Context, c *call, wait int, read func([][][]byte) error) error {
	err := s.claims.do(ctx, c)
	if err == nil {
		err = read(c.rows)
	}
	if !errors.Is(err, errBusy) {
		return err
	}
	c.args[wait] = []byte("t")
	if s.brief {
		again := &call{st: c.st, key: c.key, args: slices.Clone(c.args)}
		if err = s.claims.do(ctx, again); err == nil {
			err = read(again.rows)
		}
		if !errors.Is(err, errBusy) {
			return err
		}
	}
	if err = s.runAlone(ctx, c); err == nil {
		err = read(c.rows)
	}
	return err
}

// runAlone runs a call on a connection of the pool.
func (s *Store) runAlone(ctx context.Context, c *call) error {
	wait, cancel := context.WithTimeout(ctx, poolLimit)
	defer cancel()
	conn, err := s.pool.Acquire(wait)
	if err != nil {
		return sqlrow.Unavailable(cmp.Or(ctx.Err(), err))
	}
	if s.brief { // idle connections of many processes may fill the server
		defer func() { closeConn(conn.Hijack()) }() //nolint:contextcheck // the connection is closed even if ctx has ended
	} else {
		defer conn.Release()
	}
	if _, err := s.prepare(ctx, conn.Conn()); err != nil {
		return err
	}
	res := conn.Conn().PgConn().ExecParams(ctx, c.st.sql, c.args, nil, c.st.formats,
		c.st.results).Read()
	c.rows = res.Rows
	return cmp.Or(ctx.Err(), definite(res.Err, len(res.Rows) > 0))
}

// query runs a statement on a connection of the pool.
func (s *Store) query(ctx context.Context, st *statement, args ...[]byte) ([][][]byte, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	c := &call{st: st, args: args}
	err := s.runAlone(ctx, c)
	return c.rows, err
}

// waitArg is the index of the argument of release that says whether to wait.
const waitArg = 2

// Release ends a claim or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	owner, err := ownerOf(id.Owner)
	if id.Key == "" || len(id.Key) > driver.MaxKey || id.Owner == "" || err != nil {
		return driver.ErrNotHeld // no owner can hold it
	}
	c := &call{st: &s.st.release, key: sqlrow.Storable(id.Key)}
	c.args = [][]byte{[]byte(c.key), []byte(owner), waitArg: []byte("f")}
	return s.runClaim(ctx, c, waitArg, released)
}

// released reads an answer of release. Null is errBusy; release returns null only if it may not
// wait.
func released(rows [][][]byte) error {
	switch {
	case len(rows) != 1 || len(rows[0]) != 1:
		return sqlrow.ErrAnswer
	case rows[0][0] == nil:
		return errBusy
	case string(rows[0][0]) == "f":
		return driver.ErrNotHeld
	}
	return nil
}

// sweep deletes some ended claims in the background.
func (s *Store) sweep() {
	if s.closed.Load() {
		return
	}
	s.sweeps.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), poolLimit)
		defer cancel()
		_, _ = s.query(ctx, &s.st.sweep) // a later sweep will do
	})
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// A reader reads the columns of a row in order.
type reader struct{ sqlrow.Reader }

func (r *reader) plain() string { return sqlrow.Plain(r.Text()) }

func (r *reader) yes() bool { return r.Text() == "t" }

// claim reads the columns of the type claim_info.
func (r *reader) claim() driver.Claim {
	c := driver.Claim{Key: r.plain()}
	if owner := r.plain(); owner != "" {
		c.Owner = driver.Tag(owner)
	}
	c.Weight, c.Limit, c.Fence = r.Number(), r.Number(), uint64(max(r.Number(), 0))
	c.Holder, c.Task = r.plain(), r.plain()
	c.Meta = sqlrow.DecodeMeta(r.Next())
	if v := r.Next(); len(v) > 0 {
		c.Value = v
	}
	c.Held, c.Left = r.Span(), r.Span()
	c.Waiting, c.Kept = r.yes(), r.yes()
	return c
}
