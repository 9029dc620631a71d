package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"io"
	"net"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/internal/sqlrow"
)

// A conn is a connection of the client, with its prepared statements and the link below it. A call
// ends with its ctx because the link is closed then. The client could do that, too, but it wakes a
// goroutine of the connection before and after each call.
type conn struct {
	clientConn
	link  net.Conn // nil: not known, and the client closes it
	stmts map[string]sqldriver.Stmt
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
type connector struct{ sqldriver.Connector }

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
	return connector{c}, err
}

// Connect makes a connection.
func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	var link net.Conn
	made, err := c.Connector.Connect(context.WithValue(ctx, linkKey{}, &link))
	if err != nil {
		return nil, err
	}
	inner, ok := made.(clientConn)
	if !ok {
		return nil, errors.Join(sqlrow.ErrAnswer, made.Close())
	}
	return &conn{clientConn: inner, link: link, stmts: map[string]sqldriver.Stmt{}}, nil
}

// interruptibly makes a call that ends when ctx does. It reports whether the connection is of no
// use any more.
func interruptibly(ctx context.Context, c *sql.Conn, call func(context.Context, *sql.Conn) error) (cut bool, err error) {
	var link net.Conn
	if ctx.Done() != nil {
		if err := c.Raw(func(dc any) error { link = dc.(*conn).link; return nil }); err != nil {
			return true, err
		}
	}
	if link == nil {
		err = call(ctx, c)
		return err != nil, err
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = link.Close()
		close(closed)
	})
	err = call(context.WithoutCancel(ctx), c)
	if !stop() {
		<-closed // the next call must not lose its connection
		return true, err
	}
	return err != nil, err
}

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
