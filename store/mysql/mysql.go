// Package mysql stores claims in tables of a MariaDB database, version 10.6 or later. Claims are
// leases that expire by the clock of the server. Every grant has a fencing token that grows. No
// test runs on MySQL; the SQL follows the manual of MySQL 8.
//
// Tables and procedures are in the database of the connection, and their names begin with
// distlock_. Every SQL client can call the procedures: see docs/mysql.md.
//
// # Round trips
//
// A call is one round trip. On MariaDB an exclusive claim on a free key is one INSERT or UPDATE,
// and its release is one UPDATE. All other calls are procedures. On MySQL all calls are procedures.
// If a call expects a free key and finds it in use, it needs a second round trip.
// Attempts on a key that wait for one another are sent together.
//
// # Waiting
//
// The server cannot notify. One query looks up all waiters of the process: every 5 ms at first, and
// every 20 ms after 0.4 s without a change. A release grants the claim of the next waiter, and the
// query of this waiter finds the grant.
//
// # Connections
//
// A store has its own connections, up to [Options.MaxConns], and two more for renewals. So renewals
// never wait behind other calls.
//
// # What is not guaranteed
//
// A server whose clock is set forward ends claims early. A failover to an asynchronous replica may
// lose the last claims, and then two processes may hold one lock. The later one has the higher
// fence, unless the clock of the new primary is behind. A power failure has the same effect if
// innodb_flush_log_at_trx_commit is 0 or 2. All calls must go to one node of a Galera cluster.
// Every user that may write the tables can end every claim.
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/driver"
)

// Options configure a store. The zero value of each field is its default.
type Options struct {
	// Manual leaves missing tables to [Store.Migrate]. By default the first call creates them, if
	// the user may.
	Manual bool

	// MaxConns is the maximum number of connections for all calls except renewals. The default is
	// 16.
	MaxConns int
}

// A Store keeps claims in a database of MariaDB.
type Store struct {
	opt    Options
	claims *pool
	renews *pool // so that renewals wait for no other call

	ready   atomic.Pointer[server] // nil: the tables have not been checked yet
	check   chan struct{}          // holds a value during the check
	slow    keySet                 // keys that need a procedure
	seen    keySet                 // keys that have a row
	passing passing
	sweeper sweeper
	poller  poller
	closed  atomic.Bool
}

// connectLimit bounds the time to connect if the configuration sets no limit.
const connectLimit = 5 * time.Second

// New returns a store in the database that a configuration names. The store connects at the first
// call. It uses its own connections, and some settings of its own for them.
func New(conf *client.Config, opt *Options) (*Store, error) {
	if conf == nil {
		return nil, errors.New("mysql: the configuration is nil")
	}
	if conf.DBName == "" {
		return nil, errors.New("mysql: the configuration names no database")
	}
	s := &Store{check: make(chan struct{}, 1)}
	if opt != nil {
		s.opt = *opt
	}
	s.opt.MaxConns = cmp.Or(max(s.opt.MaxConns, 0), 16)
	var err error
	if s.claims, err = newPool(conf, claimWait, s.opt.MaxConns); err == nil {
		s.renews, err = newPool(conf, renewWait, 2)
	}
	if err != nil {
		return nil, err
	}
	s.passing.open(s)
	s.sweeper.open(s)
	s.poller.open(s)
	return s, nil
}

// idleLimit is how long a connection may be idle. The next call needs no new connection if it comes
// soon, and idle connections of many processes do not fill the server.
const idleLimit = time.Minute

// claimWait and renewWait are the longest waits for the lock of a key, in seconds. A person may
// have it in an open transaction. After that a call is unavailable, and renewals of other keys go
// on.
const claimWait, renewWait = "5", "1"

// most is the largest value of a setting that limits a number of rows: no limit.
const most = "18446744073709551615"

// A pool is a pool of connections. Turns bound their number, and not a setting of database/sql: a
// call that waits there needs a context that ends.
type pool struct {
	*sql.DB
	taken chan struct{} // has a value for each turn
}

// newPool returns a pool of up to n connections. It makes none yet.
func newPool(conf *client.Config, wait string, n int) (*pool, error) {
	connector, err := newConnector(settings(conf, wait))
	if err != nil {
		return nil, errors.New("mysql: the configuration is not valid") // the error may have a password
	}
	p := &pool{sql.OpenDB(connector), make(chan struct{}, n)}
	p.SetMaxIdleConns(n)
	p.SetConnMaxIdleTime(idleLimit)
	return p, nil
}

// enter waits for a turn, which ends with leave.
func (p *pool) enter(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pool) leave() { <-p.taken }

// settings returns the configuration of the store's connections.
func settings(conf *client.Config, wait string) *client.Config {
	c := conf.Clone()
	c.ClientFoundRows, c.MultiStatements, c.ParseTime, c.RejectReadOnly = false, false, false, false
	c.CheckConnLiveness = true // a call is not sent on a connection that the server has closed
	c.Timeout = cmp.Or(c.Timeout, connectLimit)
	c.Logger = &client.NopLogger{} // the errors are returned
	params := map[string]string{
		"time_zone": "'+00:00'", "autocommit": "1", "innodb_lock_wait_timeout": wait,
		// Assignments of an UPDATE must take effect from left to right.
		"sql_mode": "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		// The server must not convert the bytes of keys and owners: if two of these differ, it
		// does.
		"character_set_client": "'utf8mb4'", "character_set_connection": "'utf8mb4'",
		"collation_connection": "'utf8mb4_general_ci'", "character_set_results": "'utf8mb4'",
		// A COMMIT ends the transaction, and begins no other: else a grant would never be
		// committed.
		"completion_type": "'NO_CHAIN'",
		// Statements of the procedures are neither refused nor cut short.
		"sql_safe_updates": "0", "sql_select_limit": most, "max_join_size": most,
	}
	for name, value := range c.Params {
		if _, own := params[strings.ToLower(name)]; !own {
			params[name] = value
		}
	}
	c.Params = params
	return c
}

// Close closes the store's connections. Claims stay as they are.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.passing.close()
	s.poller.close()
	s.sweeper.close()
	return errors.Join(s.claims.Close(), s.renews.Close())
}

// Features declares all features.
func (s *Store) Features() driver.Features { return features() }

func features() driver.Features {
	return driver.Features{
		Name: "mysql", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true, AnyServer: true, Batch: true,
		MinTTL: time.Microsecond,
	}
}

// A sweeper deletes ended rows in the background.
type sweeper struct {
	s    *Store
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	busy   bool
	grants int
	last   time.Time
	after  []byte // the key at which the last sweep stopped
}

const (
	sweepEvery = 256                    // grants between two sweeps
	sweepAfter = 500 * time.Millisecond // or this time, if it is over first
	sweepPause = 50 * time.Millisecond  // but not before this time is over
	sweepStep  = 1000                   // keys of one sweep
)

func (w *sweeper) open(s *Store) {
	w.s = s
	w.ctx, w.stop = context.WithCancel(context.Background())
}

func (w *sweeper) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.wg.Wait()
}

// granted counts a grant, and sweeps from time to time.
func (w *sweeper) granted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants++
	if w.closed || w.busy {
		return
	}
	if idle := time.Since(w.last); idle < sweepPause || w.grants < sweepEvery && idle < sweepAfter {
		return
	}
	w.busy, w.grants, w.last = true, 0, time.Now()
	w.wg.Go(func() {
		rows, err := w.s.query(w.ctx, w.s.claims, "CALL distlock_sweep("+hexOf(w.after)+", "+number(sweepStep)+")")
		w.mu.Lock()
		defer w.mu.Unlock()
		w.busy = false
		if err == nil && len(rows) == 1 && len(rows[0]) == 1 {
			w.after = rows[0][0] // null after the last key: from the beginning
		}
	})
}

// A keySet is a set of the keys that were in use lately. It may forget them.
type keySet struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// maxKeys bounds a keySet. A key that was forgotten costs one more round trip, or a longer
// statement.
const maxKeys = 1 << 15

func (k *keySet) has(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.keys[key]
	return ok
}

func (k *keySet) set(key string, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !in {
		delete(k.keys, key)
		return
	}
	if k.keys == nil || len(k.keys) >= maxKeys {
		k.keys = map[string]struct{}{}
	}
	k.keys[key] = struct{}{}
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
