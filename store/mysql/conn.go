package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/internal/sqlrow"
)

// A conn is a connection of the client, with its prepared statements and the link below it. A call
// ends with its ctx because the link is closed then: see cutter.
type conn struct {
	clientConn
	link   net.Conn // nil: not known, and the client closes it
	stmts  map[string]sqldriver.Stmt
	cutter *cutter

	mu    sync.Mutex
	ctx   context.Context // of the call in progress; nil: there is none
	count int             // of the calls
	cut   bool            // the link was closed
}

// A clientConn is what the connections of the client do.
type clientConn interface {
	sqldriver.Conn
	sqldriver.ConnPrepareContext
	sqldriver.ConnBeginTx
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.Pinger
	sqldriver.NamedValueChecker
	sqldriver.SessionResetter
	sqldriver.Validator
}

// A connector makes connections.
type connector struct {
	sqldriver.Connector
	cutter *cutter
}

// A linkKey is the key of a context value: where the dialer leaves the link.
type linkKey struct{}

func newConnector(conf *client.Config) (sqldriver.Connector, error) {
	dial := conf.DialFunc
	if dial == nil && (conf.Net == "tcp" || conf.Net == "unix") {
		dial = new(net.Dialer).DialContext
	}
	if dial != nil { // otherwise the client knows how to dial this network
		conf.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if to, ok := ctx.Value(linkKey{}).(*net.Conn); ok {
				*to = c
			}
			return c, err
		}
	}
	c, err := client.NewConnector(conf)
	return connector{c, &cutter{conns: map[*conn]struct{}{}}}, err
}

// Connect makes a connection.
func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) { //nolint:contextcheck // the context inside an endless one
	if e, ok := ctx.(endless); ok {
		ctx = e.Context
	}
	var link net.Conn
	made, err := c.Connector.Connect(context.WithValue(ctx, linkKey{}, &link))
	if err != nil {
		return nil, err
	}
	inner, ok := made.(clientConn)
	if !ok {
		return nil, errors.Join(sqlrow.ErrAnswer, made.Close())
	}
	whole := &conn{clientConn: inner, link: link, stmts: map[string]sqldriver.Stmt{}, cutter: c.cutter}
	c.cutter.add(whole)
	return whole, nil
}

// Close closes the connection.
func (c *conn) Close() error {
	c.cutter.remove(c)
	return c.clientConn.Close()
}

// interruptibly makes a call that ends when ctx does. It reports whether the connection is of no
// use any more.
func interruptibly(ctx context.Context, c *sql.Conn, call func(context.Context, *sql.Conn) error) (cut bool, err error) {
	var dc *conn
	if err := c.Raw(func(made any) error { dc = made.(*conn); return nil }); err != nil {
		return true, err
	}
	if dc.link == nil {
		err = call(ctx, c)
		return err != nil, err
	}
	dc.begin(ctx)
	err = call(endless{ctx}, c) //nolint:contextcheck // the cutter observes ctx
	return dc.end() || err != nil, err
}

// begin makes ctx the context of the call in progress.
func (c *conn) begin(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	c.count++
	c.mu.Unlock()
	c.cutter.arm() // after ctx is set: see check
}

// end reports whether the link was closed during the call. It is not closed after that.
func (c *conn) end() (cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ctx = nil
	return c.cut
}

// current returns the context of the call in progress, or nil, and which call it is.
func (c *conn) current() (ctx context.Context, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx, c.count
}

// abort closes the link if a call is still in progress.
func (c *conn) abort(count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil && c.count == count && !c.cut {
		c.cut = true
		_ = c.link.Close()
	}
}

// cutAfter is the longest time from the end of a context to the end of its call.
const cutAfter = 2 * time.Millisecond

// A cutter ends the calls whose contexts have ended. It checks all calls in progress every
// cutAfter. A callback of each context costs more: the context of a Lock needs a timer for it, and
// an entry in the context of its caller. The client itself would wake a goroutine of the connection
// before and after each call.
type cutter struct {
	armed atomic.Bool

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func (k *cutter) add(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns[c] = struct{}{}
}

func (k *cutter) remove(c *conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, c)
}

// arm makes sure that check runs soon.
func (k *cutter) arm() {
	if !k.armed.Load() && k.armed.CompareAndSwap(false, true) {
		time.AfterFunc(cutAfter, k.check)
	}
}

// check ends calls, and runs again for as long as there are calls. It disarms the cutter first: a
// call that it does not see arms it. The Err of a context may run any code, such as the observer of
// a lost lease. So check calls it last, and without a lock.
func (k *cutter) check() {
	k.armed.Store(false)
	k.mu.Lock()
	conns := slices.Collect(maps.Keys(k.conns))
	k.mu.Unlock()
	type progress struct {
		conn  *conn
		ctx   context.Context
		count int
	}
	var calls []progress
	for _, c := range conns {
		if ctx, count := c.current(); ctx != nil {
			calls = append(calls, progress{c, ctx, count})
		}
	}
	if len(calls) > 0 {
		k.arm()
	}
	for _, p := range calls {
		if p.ctx.Err() != nil {
			p.conn.abort(p.count)
		}
	}
}

// An endless context has the values of another context, and does not end with it: the context of a
// Lock makes a timer when its method Done is called.
type endless struct{ context.Context }

// Deadline reports that there is none.
func (endless) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns nil: the context does not end.
func (endless) Done() <-chan struct{} { return nil }

// Err returns nil: the context has not ended.
func (endless) Err() error { return nil }

// statement returns a prepared statement.
func (c *conn) statement(ctx context.Context, text string) (sqldriver.Stmt, error) {
	if st, ok := c.stmts[text]; ok {
		return st, nil
	}
	st, err := c.PrepareContext(ctx, text)
	if err == nil {
		c.stmts[text] = st
	}
	return st, err
}

// exec runs a prepared statement. It returns the number of rows that it changed, and the value of
// LAST_INSERT_ID.
func (c *conn) exec(ctx context.Context, text string, args ...sqldriver.Value) (rows, id int64, err error) {
	st, err := c.statement(ctx, text)
	if err != nil {
		return 0, 0, err
	}
	res, err := st.(sqldriver.StmtExecContext).ExecContext(ctx, named(args))
	if err != nil {
		return 0, 0, err
	}
	if rows, err = res.RowsAffected(); err == nil {
		id, err = res.LastInsertId()
	}
	return rows, id, err
}

// row runs a prepared statement that returns one row of numbers.
func (c *conn) row(ctx context.Context, text string, args ...sqldriver.Value) (numbers []int64, err error) {
	st, err := c.statement(ctx, text)
	if err != nil {
		return nil, err
	}
	rows, err := st.(sqldriver.StmtQueryContext).QueryContext(ctx, named(args))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	cells := make([]sqldriver.Value, len(rows.Columns()))
	if err := rows.Next(cells); err != nil {
		return nil, err
	}
	for _, cell := range cells {
		n, ok := cell.(int64)
		if !ok {
			return nil, sqlrow.ErrAnswer
		}
		numbers = append(numbers, n)
	}
	if err := rows.Next(cells); !errors.Is(err, io.EOF) { // the commit comes after the row
		return nil, errors.Join(sqlrow.ErrAnswer, err)
	}
	return numbers, nil
}

func named(args []sqldriver.Value) []sqldriver.NamedValue {
	all := make([]sqldriver.NamedValue, len(args))
	for i, v := range args {
		all[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return all
}
