package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
)

// dialLimit bounds how long a connection may take to be made.
const dialLimit = 10 * time.Second

// ErrPooler says that a pooler gives a connection of the server to others between transactions.
var ErrPooler = errors.New("pgadvisory: a pooler stands before the server that does not keep connections apart (PgBouncer: pool_mode transaction or statement), " +
	"so that two clients would hold one lock: connect to the server itself, or use pool_mode session, or the lease table")

// Settings of every connection. What a server does not know is left out. Limits on statements and transactions
// would cut short those that wait in line. The others let the server notice that a client is gone; some systems cannot do
// so, and refuse.
const (
	needed = `select set_config(name, value, false) from (values
		('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '60s'),
		('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end)
		) as t (name, value) where current_setting(name, true) is not null`
	wished = `select set_config(name, value, false) from (values
		('client_connection_check_interval', '2s'), ('tcp_user_timeout', '10s'),
		('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '3'), ('tcp_keepalives_count', '3')
		) as t (name, value) where current_setting(name, true) is not null`

	firstLease = time.Minute // the idle_session_timeout of needed
)

// connect makes a connection that can take locks.
func (s *Store) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	pg, err := pgconn.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, unavailable(err)
	}
	l, err := s.prepare(ctx, pg)
	if err != nil {
		// Nothing is held: an end without a word is no harm.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = pg.Close(closing)
		return nil, err
	}
	return l, nil
}

func (s *Store) prepare(ctx context.Context, pg *pgconn.PgConn) (*link, error) {
	rows, err := query(ctx, pg, "select current_setting('server_version_num'), pg_is_in_recovery(), pg_backend_pid()")
	if err != nil {
		return nil, unavailable(err)
	}
	if v, _ := strconv.Atoi(rows[0][0]); v < 140000 {
		return nil, fmt.Errorf("pgadvisory: the server's version is %d, and before 14 it cannot end a connection that is idle: %w", v/10000, errors.ErrUnsupported)
	}
	if rows[0][1] == "t" {
		return nil, fmt.Errorf("%w: pgadvisory: the server is a standby, on which a lock excludes nobody at the primary", driver.ErrUnavailable)
	}
	if _, err := query(ctx, pg, needed); err != nil {
		return nil, unavailable(err)
	}
	var refused *pgconn.PgError
	if _, err := query(ctx, pg, wished); err != nil && !errors.As(err, &refused) {
		return nil, unavailable(err)
	}
	for v, sql := range statements(s.next()) {
		types := []uint32{oidBigint, oidText}
		if v == look {
			types = types[:1]
		}
		if _, err := pg.Prepare(ctx, string(v), sql, types); err != nil {
			return nil, unavailable(err)
		}
	}
	w, err := newWire(pg)
	if err != nil {
		return nil, unavailable(err)
	}
	if w.pid, err = strconv.ParseInt(rows[0][2], 10, 64); err != nil {
		return nil, unavailable(err)
	}
	l := newLink(w)
	l.lease = firstLease
	return l, nil
}

const (
	oidBigint = 20
	oidText   = 25
)

// query runs one statement by the simple protocol, which every pooler passes on, and returns the rows as text.
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
