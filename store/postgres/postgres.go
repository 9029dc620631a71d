// Package postgres stores claims in tables of a PostgreSQL database. Claims are leases that expire
// by the clock of the server, and every grant has a fencing token that grows.
//
// Tables and functions are in one schema. psql, Python and every other SQL client can call the
// functions: see docs/postgres.md. A call is one round trip. Calls of one process that arrive
// during another call go out together, in one transaction.
//
// # Connections
//
// A store has up to three connections of its own, in addition to the pool: one for claims, one for
// renewals and one that listens. After [Store.Brief] the connection for claims also listens. An
// exhausted pool therefore blocks no renewal. Behind a pooler such as PgBouncer in transaction mode
// everything works except listening: waiters poll, unless [Options.Listen] names an address of the
// server itself.
//
// # What is not guaranteed
//
// A server whose clock is set forward ends claims early. A failover to a standby that was not
// synchronous may lose the last claims, and then two processes may hold one lock. The later one has
// the higher fence, unless the clock of the new primary is behind. Every role that may write the
// tables can end every claim.
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

const defaultSchema = "distlock"

// Options configure a store. The zero value of each field is its default.
type Options struct {
	// Schema is the schema of the tables, of at most 40 bytes. The default is "distlock".
	Schema string

	// Manual leaves a missing schema to [Store.Migrate]. By default the first call creates the
	// schema, if the role may.
	Manual bool

	// Listen is a connection string for the connection that listens, if the usual address of the
	// server is a pooler. The default is the configuration of the pool.
	Listen string

	// Polling leaves out the connection that listens. Waiters then only poll.
	Polling bool
}

// A Store keeps claims in a PostgreSQL database.
type Store struct {
	pool    *pgxpool.Pool
	opt     Options
	names   names
	st      statements
	channel string // of this process
	closers []func()

	claims   *batcher // calls about claims, one transaction at a time: two would wait for the disk twice
	renews   *batcher // a connection of their own, so that renewals wait for no other call
	listener listener
	brief    bool // the connection for claims also listens

	ready  atomic.Pointer[server] // nil: the schema has not been checked yet
	check  chan struct{}          // holds a value during the check
	closed atomic.Bool
	sweeps sync.WaitGroup
}

// New returns a store on the server of a pool. The store connects at the first call. Close the
// store before the pool.
//
// The store makes its own connections with the configuration of the pool. They do not count as
// connections of the pool.
func New(pool *pgxpool.Pool, opt *Options) (*Store, error) {
	if pool == nil {
		return nil, errors.New("postgres: the pool is nil")
	}
	s := &Store{pool: pool, check: make(chan struct{}, 1)}
	if opt != nil {
		s.opt = *opt
	}
	s.opt.Schema = cmp.Or(s.opt.Schema, defaultSchema)
	// The server would truncate a longer name, and two names might become one.
	if len(s.opt.Schema) > 40 || strings.ContainsRune(s.opt.Schema, 0) {
		return nil, fmt.Errorf("postgres: the schema %.64q is longer than 40 bytes, or has a zero byte", s.opt.Schema)
	}
	var listen *pgx.ConnConfig
	if s.opt.Listen != "" {
		var err error
		if listen, err = pgx.ParseConfig(s.opt.Listen); err != nil {
			// The error of pgx may contain a password.
			return nil, errors.New("postgres: Options.Listen is not a connection string")
		}
	}
	s.names = namesOf(s.opt.Schema)
	s.st = s.names.statements()
	s.channel = s.opt.Schema + "_" + strings.ToLower(rand.Text()[:16])
	for i, channel := range []string{s.names.channel, s.channel} {
		s.st.listen[i].sql = "listen " + pgx.Identifier{channel}.Sanitize()
	}
	s.claims, s.renews = newBatcher(s), newBatcher(s)
	s.listener.open(s, listen)
	return s, nil
}

// Close closes the store's own connections. Claims stay as they are.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.listener.close()
	s.claims.close()
	s.renews.close()
	s.sweeps.Wait()
	for _, c := range s.closers {
		c()
	}
	return nil
}

// Features declares all features.
func (s *Store) Features() driver.Features { return features() }

func features() driver.Features {
	return driver.Features{
		Name: "postgres", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true, AnyServer: true, Batch: true,
		MinTTL: time.Microsecond,
	}
}

// connect makes a connection as the pool does.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	conf := s.pool.Config()
	conn := conf.ConnConfig.Copy()
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectLimit
	}
	inUTF8(conn)
	if conf.BeforeConnect != nil {
		if err := conf.BeforeConnect(ctx, conn); err != nil {
			return nil, sqlrow.Unavailable(err)
		}
	}
	c, err := pgx.ConnectConfig(ctx, conn)
	if err != nil {
		return nil, sqlrow.Unavailable(err)
	}
	if conf.AfterConnect != nil {
		if err := conf.AfterConnect(ctx, c); err != nil {
			closeConn(c) //nolint:contextcheck // the connection is closed even if ctx has ended
			return nil, sqlrow.Unavailable(err)
		}
	}
	return c, nil
}

// inUTF8 makes a connection send and receive UTF-8, whatever the settings of the role are.
func inUTF8(conn *pgx.ConnConfig) {
	if conn.RuntimeParams == nil {
		conn.RuntimeParams = map[string]string{}
	}
	conn.RuntimeParams["client_encoding"] = "UTF8"
}

// connectLimit bounds the time to connect if the configuration sets no limit.
const connectLimit = 5 * time.Second

// closeConn closes a connection without waiting for the server.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the connection is closed even after an error
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
