package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgurl"
	"github.com/distlock/distlock/internal/protocol"
)

// ErrURL reports that a URL is invalid, or that the server speaks another protocol than the URL
// names.
var ErrURL = errors.New("postgres: bad URL")

// A urlError is an error that matches ErrURL and keeps its own text.
type urlError struct{ error }

func (urlError) Is(target error) bool { return target == ErrURL }

func (e urlError) Unwrap() error { return e.error }

// poolIdle is how long a connection of the store's own pool may be idle.
const poolIdle = 2 * time.Second

// Open returns a store on the server that a URL names. Closing the store closes its connections.
//
//	postgres://user:password@host:5432/database
//
// The scheme postgresql:// is the same. Several hosts, separated by commas, name a primary and its
// standbys.
//
// A server that does not answer is not an error: the store is unavailable until the server answers.
// Open fails if the server refuses the user, or if the schema cannot be used. It returns [ErrURL]
// if the server speaks another protocol, or has no TLS where the URL requires it. A missing schema
// is created, if the role may.
//
// The query may have lock_mode (table), lock_schema ([Options.Schema]), lock_migrate (false:
// [Options.Manual]), lock_listen ([Options.Listen]), tls_ca, tls_cert, tls_key (files),
// tls_server_name, tls_skip_verify (true or false), and the parameters of pgx, its pool and the
// server: sslmode, pool_max_conns (1 by default), connect_timeout and others. With several hosts
// the default of target_session_attrs is read-write. Errors show no password. Errors about the URL
// match [ErrURL].
func Open(ctx context.Context, text string) (*Store, error) {
	conf, opt, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	s, err := New(pool, opt)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	s.closers = append(s.closers, pool.Close)
	if err := s.firstConnect(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// firstConnect makes the connection for claims. It returns nil if the server cannot be reached.
func (s *Store) firstConnect(ctx context.Context) error {
	var conn *pgx.Conn
	err := pgurl.Connect(ctx, &s.pool.Config().ConnConfig.Config,
		func(ctx context.Context) (err error) {
			conn, err = s.connect(ctx)
			return err
		})
	if err == nil {
		if s.opt.Manual { // the caller may be about to migrate
			closeConn(conn) //nolint:contextcheck // the connection is closed even if ctx has ended
			return nil
		}
		// The connection stays, for claims: a server closes one in its own time, and many processes
		// that start together would fill it with twice their number.
		if err = s.claims.adopt(ctx, conn); err != nil {
			closeConn(conn) //nolint:contextcheck // the connection is closed even if ctx has ended
		}
	}
	var schema *SchemaError
	var other *protocol.Error
	switch class := code(err); {
	case errors.As(err, &other):
		return urlError{fmt.Errorf("postgres: %w", other)}
	case err == nil, ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &schema), errors.Is(err, errors.ErrUnsupported),
		strings.HasPrefix(class, "28"),
		strings.HasPrefix(class, "3D"), strings.HasPrefix(class, "42"):
		return err // waiting does not help: user, database, version or permissions are wrong
	case errors.Is(err, driver.ErrUnavailable):
		return nil
	}
	return err
}

// parse reads a URL. Its errors never contain the password.
func parse(text string) (*pgxpool.Config, *Options, error) {
	opt := &Options{}
	u, err := pgurl.Parse(text, opt.set)
	if err != nil {
		return nil, nil, err
	}
	conf, err := pgxpool.ParseConfig(u.Text)
	if err != nil {
		return nil, nil, err // pgx removes the password
	}
	u.Apply(&conf.ConnConfig.Config)
	inUTF8(conf.ConnConfig)
	shrinkPool(conf, u.Keys)
	return conf, opt, nil
}

// shrinkPool makes the store's own pool small, unless the URL sets its size. Only few calls need
// the pool, for example a call that waits for another transaction. Idle connections of many waiting
// processes may fill the server.
func shrinkPool(conf *pgxpool.Config, seen []string) {
	if !slices.Contains(seen, "pool_max_conns") {
		conf.MaxConns = 1
	}
	if !slices.Contains(seen, "pool_max_conn_idle_time") {
		conf.MaxConnIdleTime = poolIdle
	}
	if !slices.Contains(seen, "pool_health_check_period") {
		conf.HealthCheckPeriod = poolIdle // the health check closes idle connections
	}
}

// set reads one of the store's own keys.
func (o *Options) set(key, value string) error {
	switch key {
	case "lock_mode":
		if value != "table" {
			return fmt.Errorf("lock_mode is %.64q, want table or advisory", value)
		}
	case "lock_schema":
		o.Schema = value
	case "lock_listen":
		o.Listen = value
	case "lock_migrate":
		if value != "true" && value != "false" {
			return fmt.Errorf("lock_migrate is %.64q, want true or false", value)
		}
		o.Manual = value == "false"
	default:
		return fmt.Errorf("%.64q is not known: there are lock_mode, lock_schema, lock_migrate and lock_listen", key)
	}
	return nil
}
