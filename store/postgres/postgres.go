// Package postgres is a store in tables of a PostgreSQL database: claims are leases that end by the server's clock.
//
// All of it is in one schema, by functions that psql, Python and anything else that speaks SQL may call: see docs/postgres.md. A
// call is one round trip. Calls of one process that come while another is under way go out together, in one transaction.
//
// # Connections
//
// A store has up to three connections of its own, beside the pool it is given: one for claims, one
// for renewals and one that listens; after [Store.Brief] the first of them listens too. So a pool
// that is exhausted keeps nobody from renewing. Behind a pooler such as PgBouncer in transaction
// mode everything works but listening: there, those who wait ask again from time to time, unless
// Options.Listen names a way around the pooler.
//
// # What is not guaranteed
//
// A server whose clock is set forward ends claims early. A failover to a standby that was not synchronous may forget
// the last claims, and then two may hold one: the later one has the higher fence, unless the new primary's clock is behind. Whoever may
// write the tables can end every claim.
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
)

const defaultSchema = "distlock"

// Options change what a store does. The zero value of each field is its default.
type Options struct {
	// Schema is where the tables are. The default is "distlock". It has at most 40 bytes.
	Schema string

	// Manual leaves a schema that is missing to whoever runs Migrate. The default is to create it with the first call, if the role may.
	Manual bool

	// Listen is a connection string for the connection that listens, for a server whose usual address is a pooler. The default is
	// the configuration of the pool.
	Listen string

	// Polling leaves out the connection that listens. Those who wait then ask again from time to time only.
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

	claims *lane // calls about claims, one transaction after the other: two at once would wait for the disk twice
	renews *lane // so that renewals wait for nobody
	feed   feed
	brief  bool // the claims' connection listens too

	ready  atomic.Pointer[server] // nil: the schema was not looked at yet
	mu     sync.Mutex             // held while it is looked at
	closed atomic.Bool
	sweeps sync.WaitGroup
}

// New returns a store on the server of a pool. It connects with the first call. Close the store before the pool.
//
// The store's own connections are made as the pool makes them, and do not count among the pool's.
func New(pool *pgxpool.Pool, opt *Options) (*Store, error) {
	if pool == nil {
		return nil, errors.New("postgres: the pool is nil")
	}
	s := &Store{pool: pool}
	if opt != nil {
		s.opt = *opt
	}
	s.opt.Schema = cmp.Or(s.opt.Schema, defaultSchema)
	// A longer name would be cut by the server, and two might become one.
	if len(s.opt.Schema) > 40 || strings.ContainsRune(s.opt.Schema, 0) {
		return nil, fmt.Errorf("postgres: the schema %.64q is longer than 40 bytes, or has a zero byte", s.opt.Schema)
	}
	var listen *pgx.ConnConfig
	if s.opt.Listen != "" {
		var err error
		if listen, err = pgx.ParseConfig(s.opt.Listen); err != nil {
			return nil, errors.New("postgres: Options.Listen is no connection string") // its error may show a password
		}
	}
	s.names = namesOf(s.opt.Schema)
	s.st = s.names.statements()
	s.channel = s.opt.Schema + "_" + strings.ToLower(rand.Text()[:16])
	s.claims, s.renews = newLane(s), newLane(s)
	s.feed.open(s, listen)
	return s, nil
}

// Close ends the store's own connections. Claims stay as they are.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.feed.close()
	s.claims.close()
	s.renews.close()
	s.sweeps.Wait()
	for _, c := range s.closers {
		c()
	}
	return nil
}

// Features declares everything.
func (s *Store) Features() driver.Features { return features() }

func features() driver.Features {
	return driver.Features{
		Name: "postgres", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true, AnyServer: true,
		MinTTL: time.Microsecond,
	}
}

// connect makes a connection as the pool would.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	conf := s.pool.Config()
	conn := conf.ConnConfig.Copy()
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectLimit
	}
	if conf.BeforeConnect != nil {
		if err := conf.BeforeConnect(ctx, conn); err != nil {
			return nil, unavailable(err)
		}
	}
	c, err := pgx.ConnectConfig(ctx, conn)
	if err != nil {
		return nil, unavailable(err)
	}
	if conf.AfterConnect != nil {
		if err := conf.AfterConnect(ctx, c); err != nil {
			closeConn(c) //nolint:contextcheck // a connection is closed also when ctx is over
			return nil, unavailable(err)
		}
	}
	return c, nil
}

// connectLimit bounds how long a connection may take if the configuration does not say.
const connectLimit = 5 * time.Second

// closeConn closes a connection without waiting for the server.
func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // it is gone in any case
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
