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

// A turnCounter is a connection that counts how often something is sent and then waited for.
type turnCounter struct {
	net.Conn
	turns *atomic.Int64
	wrote atomic.Bool
}

func (c *turnCounter) Write(b []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(b)
}

func (c *turnCounter) Read(b []byte) (int, error) {
	if c.wrote.Swap(false) {
		c.turns.Add(1)
	}
	return c.Conn.Read(b)
}

// Every verb is one round trip.
func TestStore_roundTrips(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	conf, err := pgxpool.ParseConfig(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	var turns atomic.Int64
	conf.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &turnCounter{Conn: c, turns: &turns}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := over(t, pool, fresh(t))
	var many []driver.Renewal
	for i := range 300 {
		r := exclusive(fmt.Sprint("many", i))
		grant(t, s, r)
		many = append(many, driver.Renewal{ID: r.ID, TTL: r.TTL})
	}
	counts := map[string][]int64{}
	count := func(verb string, f func()) {
		before := turns.Load()
		f()
		counts[verb] = append(counts[verb], turns.Load()-before)
	}
	for i := range 11 {
		used, unused := exclusive("used"), exclusive(fmt.Sprint("unused", i))
		count("Acquire", func() { grant(t, s, used) })
		count("Acquire of a new key", func() { grant(t, s, unused) })
		count("Acquire that is refused", func() { refuse(t, s, exclusive("used")) })
		count("Acquire that waits in line", func() { refuse(t, s, placed(exclusive("unused0"))) })
		count("Renew", func() { renew(t, s, used) })
		count("RenewAll", func() { s.RenewAll(t.Context(), many) })
		count("Release", func() { release(t, s, used) })
	}
	for verb, all := range counts {
		slices.Sort(all) // the first makes a connection, and some have a sweep beside them, or are read before they are written
		if all[len(all)/2] != 1 {
			t.Errorf("%s: %d round trips, want 1", verb, all)
		}
	}
}

// Who is refused and keeps no place writes nothing: its transaction has no number.
func TestSQL_loserWritesNothing(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	grant(t, s, exclusive("held"))
	c, ask := plainSQL(t, srv.URL, opt)
	const call = "select Schema.ask('held', 'o', '1 min', 1073741824, 1073741824, %s, 0, '', '', '{}', null, '', true) like '{%%'"
	for place, wrote := range map[string]bool{"null": false, "'1 min'": true} {
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := ask(fmt.Sprintf(call, place)); err != nil || !ok {
			t.Errorf("not refused: %v, %v", ok, err)
		}
		if got, err := ask("select pg_current_xact_id_if_assigned() is not null"); err != nil || got != wrote {
			t.Errorf("with a place for %s it wrote: %v, %v; want %v", place, got, err, wrote)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody is told of a lock that nobody waits for.
func TestSQL_notifies(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	works(t, s)
	c, ask := plainSQL(t, srv.URL, opt)
	const mine = "mine"
	for _, channel := range []string{opt.Schema, mine + opt.Schema} {
		if _, err := c.Exec(t.Context(), "listen "+pgx.Identifier{channel}.Sanitize()); err != nil {
			t.Fatal(err)
		}
	}
	// heard returns the channels of what was told so far: news comes in the order of commits.
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
	refuse(t, s, exclusive("key")) // and goes away
	if all := heard(); len(all) > 0 {
		t.Errorf("with nobody who waits %q were told", all)
	}
	if ok, err := ask("select answer = '-' from Schema.acquire('key', 'o', '1 min', place => '1 min', channel => $1)", mine+opt.Schema); err != nil || !ok {
		t.Fatal(ok, err)
	}
	release(t, s, a)
	if all := heard(); strings.Join(all, " ") != mine+opt.Schema {
		t.Errorf("with one who waits %q were told, want that one", all)
	}
}

// Whoever waits and is told nothing asks again before long.
func TestStore_deaf(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	proxy := testenv.Proxy(t, srv.Addr)
	direct := made(t, srv.URL, opt)
	cut := made(t, srv.URL, &postgres.Options{Schema: opt.Schema, Listen: on(t, srv.URL, proxy.Addr, "")})
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
		eventually(t, name+" is in line", func() error {
			cs, err := direct.Show(t.Context(), name)
			if err == nil && len(cs) != 2 {
				err = fmt.Errorf("%d stand on the key", len(cs))
			}
			return err
		})
		proxy.Cut(testenv.Both) // what is told reaches nobody
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
