package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/sqlrow"
)

// dialLimit bounds the time to connect.
const dialLimit = 10 * time.Second

// ErrPooler reports that a pooler gives a server connection to other clients between transactions.
var ErrPooler = errors.New("pgadvisory: a pooler in front of the server does not keep connections apart (PgBouncer: pool_mode transaction or statement), " +
	"so that two clients would hold one lock: connect to the server itself, or use pool_mode session, or the lease table")

// The settings of every connection. Settings that a server does not know are left out. Limits on
// statements and transactions would end waits in the queue. The optional settings let the server
// notice that a client is gone; some systems do not support them and refuse.
const (
	required = `select set_config(name, value, false) from (values
		('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '60s'),
		('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end)
		) as t (name, value) where current_setting(name, true) is not null`
	optional = `select set_config(name, value, false) from (values
		('client_connection_check_interval', '2s'), ('tcp_user_timeout', '10s'),
		('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '3'), ('tcp_keepalives_count', '3')
		) as t (name, value) where current_setting(name, true) is not null`

	firstLease = time.Minute // the idle_session_timeout of required
)

// connect makes a connection that can acquire locks.
func (s *Store) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	pg, err := pgconn.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, sqlrow.Unavailable(err)
	}
	l, err := s.prepare(ctx, pg)
	if err != nil {
		hangUp(ctx, pg)
		return nil, err
	}
	return l, nil
}

// hangUp closes a connection. It holds nothing, so a failed close is harmless.
func hangUp(ctx context.Context, pg *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = pg.Close(ctx)
}

func (s *Store) prepare(ctx context.Context, pg *pgconn.PgConn) (*link, error) {
	rows, err := query(ctx, pg, "select current_setting('server_version_num'), pg_is_in_recovery(), pg_backend_pid()")
	if err != nil {
		return nil, sqlrow.Unavailable(err)
	}
	if v, _ := strconv.Atoi(rows[0][0]); v < 140000 {
		return nil, fmt.Errorf("pgadvisory: the server's version is %d, and servers before 14 cannot end idle connections: %w", v/10000, errors.ErrUnsupported)
	}
	if rows[0][1] == "t" {
		return nil, fmt.Errorf("%w: pgadvisory: the server is a standby, and its locks exclude nobody at the primary", driver.ErrUnavailable)
	}
	if _, err := query(ctx, pg, required); err != nil {
		return nil, sqlrow.Unavailable(err)
	}
	var refused *pgconn.PgError
	if _, err := query(ctx, pg, optional); err != nil && !errors.As(err, &refused) {
		return nil, sqlrow.Unavailable(err)
	}
	for v, sql := range statements(s.fenceSQL()) {
		types := []uint32{oidBigint, oidText}
		if v == look {
			types = types[:1]
		}
		if _, err := pg.Prepare(ctx, string(v), sql, types); err != nil {
			return nil, sqlrow.Unavailable(err)
		}
	}
	pid, err := strconv.ParseInt(rows[0][2], 10, 64)
	if err != nil {
		return nil, sqlrow.Unavailable(err)
	}
	c, err := pgwire.New(pg, nil)
	if err != nil {
		return nil, sqlrow.Unavailable(err)
	}
	return newLink(c, pid), nil
}

const (
	oidBigint = 20
	oidText   = 25
)

// query runs one statement with the simple protocol, which every pooler supports, and returns the
// rows as text.
func query(ctx context.Context, pg *pgconn.PgConn, sql string) ([][]string, error) {
	all, err := pg.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range all[len(all)-1].Rows {
		row := make([]string, len(r))
		for i, v := range r {
			row[i] = string(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
