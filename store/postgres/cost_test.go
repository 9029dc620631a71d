package postgres_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// A tripCounter is a connection that counts round trips: writes that are followed by a read.
type tripCounter struct {
	net.Conn
	trips *atomic.Int64
	wrote atomic.Bool
}

func (c *tripCounter) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *tripCounter) Read(b []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.trips.Add(1)
	}
	return c.Conn.Read(b)
}

// Every operation is one round trip.
func TestStore_roundTrips(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	conf, err := pgxpool.ParseConfig(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	var trips atomic.Int64
	conf.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &tripCounter{Conn: c, trips: &trips}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := newStore(t, pool, fresh(t))
	var many []driver.Renewal
	for i := range 300 {
		r := exclusive(fmt.Sprint("many", i))
		grant(t, s, r)
		many = append(many, driver.Renewal{ID: r.ID, TTL: r.TTL})
	}
	counts := map[string][]int64{}
	count := func(verb string, f func()) {
		before := trips.Load()
		f()
		counts[verb] = append(counts[verb], trips.Load()-before)
	}
	for i := range 11 {
		used, unused := exclusive("used"), exclusive(fmt.Sprint("unused", i))
		count("Acquire", func() { grant(t, s, used) })
		count("Acquire of a new key", func() { grant(t, s, unused) })
		count("Acquire that is refused", func() { refuse(t, s, exclusive("used")) })
		count("Acquire that joins the queue", func() { refuse(t, s, queueing(exclusive("unused0"))) })
		count("Renew", func() { renew(t, s, used) })
		count("RenewAll", func() { s.RenewAll(t.Context(), many) })
		count("Release", func() { release(t, s, used) })
	}
	for verb, all := range counts {
		// The first one connects, and some run during a sweep or are read before they are written.
		slices.Sort(all)
		if all[len(all)/2] != 1 {
			t.Errorf("%s: %d round trips, want 1", verb, all)
		}
	}
}

// A refused attempt without a queue entry writes nothing: its transaction has no number.
func TestSQL_loserWritesNothing(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	grant(t, s, exclusive("held"))
	c, eval := plainSQL(t, srv.URL, opt)
	const call = "select Schema.attempt('held', 'o', '1 min', 1073741824, 1073741824, %s, 0, '', '', '{}', null, '', true) like '{%%'"
	for queueTTL, wrote := range map[string]bool{"null": false, "'1 min'": true} {
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := eval(fmt.Sprintf(call, queueTTL)); err != nil || !ok {
			t.Errorf("not refused: %v, %v", ok, err)
		}
		if got, err := eval("select pg_current_xact_id_if_assigned() is not null"); err != nil ||
			got != wrote {
			t.Errorf("with a queue TTL of %s it wrote: %v, %v; want %v", queueTTL, got, err, wrote)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A release without waiters sends no notification.
func TestSQL_notifies(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	c, eval := plainSQL(t, srv.URL, opt)
	const mine = "mine"
	for _, channel := range []string{opt.Schema, mine + opt.Schema} {
		if _, err := c.Exec(t.Context(), "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
			t.Fatal(err)
		}
	}
	// heard returns the channels of the notifications so far. They arrive in the order of commits.
	heard := func() (all []string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), "select pg_notify($1, 'end')", mine+opt.Schema); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := c.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "end" {
				return all
			}
			all = append(all, n.Channel)
		}
	}
	a := exclusive("key")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r := exclusive(fmt.Sprint("key", i))
			grant(t, s, r)
			renew(t, s, r)
			release(t, s, r)
		})
	}
	wg.Wait()
	grant(t, s, a)
	refuse(t, s, exclusive("key")) // and does not wait
	if all := heard(); len(all) > 0 {
		t.Errorf("without waiters %q were notified", all)
	}
	if ok, err := eval("select answer = '-' from Schema.acquire('key', 'o', '1 min', queue_ttl => '1 min', channel => $1)", mine+opt.Schema); err != nil || !ok {
		t.Fatal(ok, err)
	}
	release(t, s, a)
	if all := heard(); strings.Join(all, " ") != mine+opt.Schema {
		t.Errorf("with one waiter %q were notified, want that one", all)
	}
}

// A waiter that receives no notification polls within seconds.
func TestStore_withoutNotifications(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	direct := made(t, srv.URL, opt)
	cut := made(t, srv.URL, &postgres.Options{Schema: opt.Schema,
		Listen: on(t, srv.URL, proxy.Addr, "")})
	polling := made(t, srv.URL, &postgres.Options{Schema: opt.Schema, Polling: true})
	works(t, direct)
	for name, s := range map[string]*postgres.Store{"cut": cut, "polling": polling} {
		a := exclusive(name)
		grant(t, direct, a)
		l, err := distlock.New(s, distlock.TTL(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			lease, err := l.Lock(t.Context(), name)
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			done <- err
		}()
		eventually(t, name+" is in the queue", func() error {
			cs, err := direct.Show(t.Context(), name)
			if err == nil && len(cs) != 2 {
				err = fmt.Errorf("%d rows on the key", len(cs))
			}
			return err
		})
		proxy.Cut(testenv.Both) // no notification arrives
		release(t, direct, a)
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: not granted in 20 s, though nobody holds the lock", name)
		}
		proxy.Heal()
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A snapshot that stays open keeps the dead rows of all holds after it, and every hold of the name
// reads them. Vacuum removes them when the transaction has ended.
func TestStore_oldSnapshot(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t) // a snapshot counts for all schemas of a database
	s := made(t, srv.URL, nil)
	const holds = 50
	// Before PostgreSQL 15, statistics arrive a little later than what they count.
	dead := func(many bool) (rows int) {
		t.Helper()
		for range holds {
			works(t, s)
		}
		query(t, srv, "vacuum distlock.claim")
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			got := query(t, srv, "select n_dead_tup from pg_stat_user_tables where schemaname = 'distlock' and relname = 'claim'")
			if _, err := fmt.Sscan(got[0][0], &rows); err != nil {
				t.Fatal(err)
			}
			if rows >= holds == many || time.Now().After(end) {
				return rows
			}
		}
	}
	if n := dead(false); n >= holds {
		t.Errorf("no snapshot is open, and vacuum leaves %d dead rows of %d holds", n, holds)
	}
	c, eval := plainSQL(t, srv.URL, &postgres.Options{Schema: "distlock"})
	if _, err := c.Exec(t.Context(), "begin isolation level repeatable read"); err != nil {
		t.Fatal(err)
	}
	if _, err := eval("select count(*) > 0 from Schema.meta"); err != nil {
		t.Fatal(err)
	}
	if n := dead(true); n < holds {
		t.Errorf("a snapshot is open, and vacuum leaves %d dead rows of %d holds: the row of docs/guarantees.md can go", n, holds)
	}
	if _, err := c.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if n := dead(false); n >= holds {
		t.Errorf("the snapshot has ended, and vacuum leaves %d dead rows of %d holds", n, holds)
	}
}
