package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// sweepOdds is how many grants there are to one sweep, which looks at 200 keys: more than the grants between two can
	// have added.
	sweepOdds = 64

	// poolLimit is for how long a call waits for a connection of the pool.
	poolLimit = 2 * time.Second
)

// statements are the verbs as a schema has them.
type statements struct {
	acquire, release, renew, renewAll, show, list, breaks, watch, sweep, inspect statement
}

func (n *names) statements() statements {
	return statements{
		acquire: statement{
			sql:     n.sql(`select @schema@.ask($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`),
			formats: []int16{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, results: []int16{0},
			all: &statement{
				sql:     n.sql(`select @schema@.ask_all($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`),
				formats: []int16{0}, results: []int16{0},
			},
			order: 2,
		},
		release: statement{
			sql: n.sql(`select @schema@.release($1, $2, $3)`), formats: []int16{0, 0, 0}, results: []int16{0},
			all:   &statement{sql: n.sql(`select @schema@.release_all($1, $2, $3)`), formats: []int16{0}, results: []int16{0}},
			order: 1,
		},
		renew: statement{
			sql:     n.sql(`select answer, behind, reason from @schema@.renew($1, $2, $3, $4, $5)`),
			formats: []int16{0, 0, 0, 1, 0}, results: []int16{0},
		},
		renewAll: statement{
			sql: n.sql(`select answer, behind, reason from @schema@.renew_all($1, $2, $3)`), formats: []int16{0}, results: []int16{0},
		},
		show:   statement{sql: n.sql(selectTold + `@schema@.show($1)`), formats: []int16{0}, results: toldFormats},
		list:   statement{sql: n.sql(selectTold + `@schema@.list($1, $2)`), formats: []int16{0}, results: toldFormats},
		breaks: statement{sql: n.sql(selectTold + `@schema@.break($1, $2, $3)`), formats: []int16{0}, results: toldFormats},
		watch:  statement{sql: n.sql(`select @schema@.watch($1, $2)`), formats: []int16{0}, results: []int16{0}},
		// What a crash of the server forgets of a sweep, another one does: nobody waits for the disk.
		sweep:   statement{sql: n.sql(`select set_config('synchronous_commit', 'off', true), @schema@.sweep()`), results: []int16{0}},
		inspect: statement{sql: n.sql(inspectSQL), results: []int16{0}},
	}
}

// selectTold names the columns of the type told: later functions may return more.
const selectTold = `select key, owner, weight, "limit", fence, holder, party, meta, value, held, "left", waiting, kept from `

// toldFormats are those of the columns of the type told: the value is binary.
var toldFormats = []int16{0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return driver.Result{}, err
	}
	owner, err := ownerOf(r.Owner)
	if err != nil {
		return driver.Result{}, err
	}
	c := &call{st: &s.st.acquire, key: storable(r.Key)}
	c.args = [][]byte{
		[]byte(c.key), []byte(owner), appendLife(nil, r.TTL), number(r.Weight), number(r.Limit), nil, number(int64(r.Floor)),
		[]byte(storable(r.Holder)), []byte(storable(r.Task)), encodeMeta(r.Meta), r.Value, nil, []byte("f"),
	}
	c.args[11] = []byte{}
	if r.QueueTTL > 0 {
		c.args[5] = appendLife(nil, r.QueueTTL)
		c.args[11] = []byte(s.feed.address())
	}
	if len(r.Value) == 0 {
		c.args[10] = nil // as it is stored
	}
	if err := s.claims.do(ctx, c); err != nil {
		return driver.Result{}, err
	}
	res, err := s.result(r, c.rows)
	if errors.Is(err, errBusy) {
		// Another transaction has the key. To wait for it in the lane would hold up all others.
		c.args[12] = []byte("t")
		if err := s.alone(ctx, c); err != nil {
			return driver.Result{}, err
		}
		res, err = s.result(r, c.rows)
	}
	if res.Granted {
		s.renews.open(&s.st.renew, &s.st.renewAll) //nolint:contextcheck // it goes on beside the call
		if rand.N(sweepOdds) == 0 {                //nolint:gosec // it is no secret when
			s.sweep() //nolint:contextcheck // it goes on beside the call
		}
	}
	return res, err
}

// maxOwner bounds an owner as it is stored: key and owner must fit into an entry of an index.
const maxOwner = 1024

func ownerOf(owner string) (string, error) {
	if owner = storable(owner); len(owner) > maxOwner {
		return "", fmt.Errorf("%w: an owner of %d bytes is over %d bytes", driver.ErrInvalid, len(owner), maxOwner)
	}
	return owner, nil
}

// alone runs a call on a connection of the pool.
func (s *Store) alone(ctx context.Context, c *call) error {
	wait, cancel := context.WithTimeout(ctx, poolLimit)
	defer cancel()
	conn, err := s.pool.Acquire(wait)
	if err != nil {
		return unavailable(cmp.Or(ctx.Err(), err))
	}
	if s.brief { // an idle connection of each process may be what fills the server
		defer func() { closeConn(conn.Hijack()) }() //nolint:contextcheck // a connection is closed also when ctx is over
	} else {
		defer conn.Release()
	}
	if _, err := s.prepare(ctx, conn.Conn()); err != nil {
		return err
	}
	res := conn.Conn().PgConn().ExecParams(ctx, c.st.sql, c.args, nil, c.st.formats, c.st.results).Read()
	c.rows = res.Rows
	return cmp.Or(ctx.Err(), definite(res.Err, len(res.Rows) > 0))
}

// query runs a statement that a user of the store waits for, on a connection of the pool.
func (s *Store) query(ctx context.Context, st *statement, args ...[]byte) ([][][]byte, error) {
	if s.closed.Load() {
		return nil, errClosed
	}
	c := &call{st: st, args: args}
	err := s.alone(ctx, c)
	return c.rows, err
}

// waitArg is the argument of a release that says for whom it waits.
const waitArg = 2

// Release ends a claim or gives up a place.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	owner, err := ownerOf(id.Owner)
	if id.Key == "" || len(id.Key) > driver.MaxKey || id.Owner == "" || err != nil {
		return driver.ErrNotHeld // nobody can have it
	}
	c := &call{st: &s.st.release, key: storable(id.Key)}
	c.args = [][]byte{[]byte(c.key), []byte(owner), waitArg: []byte("f")}
	if err = s.claims.do(ctx, c); err == nil {
		err = released(c.rows)
	}
	if errors.Is(err, errBusy) {
		// Another transaction has the key, and may be granting it to this owner, or has its hands on the claim. To wait for it in the lane
		// would hold up all others.
		c.args[waitArg] = []byte("t")
		if err = s.alone(ctx, c); err == nil {
			err = released(c.rows)
		}
	}
	return err
}

// released reads an answer of release. Null, which it does not give if it may wait, is errBusy.
func released(rows [][][]byte) error {
	switch {
	case len(rows) != 1 || len(rows[0]) != 1:
		return errAnswer
	case rows[0][0] == nil:
		return errBusy
	case string(rows[0][0]) == "f":
		return driver.ErrNotHeld
	}
	return nil
}

// sweep clears up a little, beside the calls of others.
func (s *Store) sweep() {
	if s.closed.Load() {
		return
	}
	s.sweeps.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), poolLimit)
		defer cancel()
		_, _ = s.query(ctx, &s.st.sweep) // another time will do
	})
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// A reader reads the columns of a row one after the other. Null is the zero value.
type reader struct {
	cells [][]byte
	err   error
}

func (r *reader) next() []byte {
	if len(r.cells) == 0 {
		r.err = errAnswer
		return nil
	}
	c := r.cells[0]
	r.cells = r.cells[1:]
	return c
}

func (r *reader) text() string { return string(r.next()) }

func (r *reader) plain() string { return plain(string(r.next())) }

func (r *reader) yes() bool { return string(r.next()) == "t" }

func (r *reader) number() int64 {
	b := r.next()
	if b == nil {
		return 0
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		r.err = errAnswer
	}
	return n
}

func (r *reader) micros() time.Duration { return span(r.number()) }

// claim reads the columns of the type told.
func (r *reader) claim() driver.Claim {
	c := driver.Claim{Key: r.plain()}
	if owner := r.plain(); owner != "" {
		c.Owner = driver.Tag(owner)
	}
	c.Weight, c.Limit, c.Fence = r.number(), r.number(), uint64(max(r.number(), 0))
	c.Holder, c.Task = r.plain(), r.plain()
	c.Meta = decodeMeta(r.next())
	if v := r.next(); len(v) > 0 {
		c.Value = v
	}
	c.Held, c.Left = r.micros(), r.micros()
	c.Waiting, c.Kept = r.yes(), r.yes()
	return c
}
