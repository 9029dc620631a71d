package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// Each waiting process has one connection, and is notified of its grant on it.
func TestStore_Brief(t *testing.T) {
	t.Parallel()
	const waiters = 8
	srv := testenv.Postgres(t)
	holder, err := postgres.Open(t.Context(), srv.URL) // its pool closes the connection of a sweep
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Close() })
	first := exclusive("key")
	grant(t, holder, first)
	const others = 2 // of the holder: for claims, and soon for renewals
	connected := func(want int) {
		t.Helper()
		eventually(t, "connections", func() error {
			if n := clients(t, srv); n != want {
				return fmt.Errorf("%d, want %d", n, want)
			}
			return nil
		})
	}
	connected(others)

	stores, requests := make([]*postgres.Store, waiters), make([]driver.Request, waiters)
	wakes := make([]<-chan driver.Wake, waiters)
	for i := range waiters {
		s, err := postgres.Open(t.Context(), srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		s.Brief()
		r := queueing(exclusive("key"))
		refuse(t, s, r)
		if wakes[i] = s.Watch(t.Context(), r.ID); wakes[i] == nil {
			t.Fatal("the store does not notify")
		}
		refuse(t, s, r)
		stores[i], requests[i] = s, r
	}
	connected(others + waiters)
	held, by := first, driver.Store(holder)
	for i := range waiters {
		drain(wakes[i])
		release(t, by, held)
		select {
		case wake := <-wakes[i]:
			if !wake.Granted {
				t.Errorf("waiter %d: %+v, want a grant", i, wake)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("waiter %d was not notified", i)
		}
		grant(t, stores[i], requests[i])
		held, by = requests[i], stores[i]
	}
	release(t, by, held)
}

// clients returns the number of connections of a server, without its own.
func clients(t testing.TB, srv *testenv.PostgresServer) (n int) {
	t.Helper()
	rows := query(t, srv, "select count(*) - 1 from pg_stat_activity where backend_type = 'client backend'")
	if _, err := fmt.Sscan(rows[0][0], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Calls run on a connection that listens too, and notifications that arrive during calls are not
// lost.
func TestStore_Brief_calls(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s, other := made(t, srv.URL, opt), made(t, srv.URL, opt)
	s.Brief()
	for i := range 20 {
		held, w := exclusive(fmt.Sprint("key", i)), queueing(exclusive(fmt.Sprint("key", i)))
		grant(t, other, held)
		wake := s.Watch(t.Context(), w.ID)
		refuse(t, s, w)
		drain(wake)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for j := range 20 {
				r := exclusive(fmt.Sprint("free", i, j))
				grant(t, s, r)
				release(t, s, r)
			}
		}()
		release(t, other, held)
		woken(t, wake, "by a release in the middle of calls")
		<-done
	}
}

// The connection that Open makes is the one for claims: many commands that start at one time need
// one connection each.
func TestOpen_keepsItsConnection(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	s, err := postgres.Open(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	backends := func() string {
		return fmt.Sprint(query(t, srv, `select pid from pg_stat_activity
			where backend_type = 'client backend' and pid <> pg_backend_pid()`))
	}
	opened := backends()
	s.Brief()
	r := exclusive("key")
	refused := queueing(exclusive("key"))
	grant(t, s, r)
	refuse(t, s, refused)
	if now := backends(); opened == "[]" || !strings.Contains(now, strings.Trim(opened, "[]")) {
		t.Errorf("the server has the backends %s, want that of Open: %s", now, opened)
	}
	release(t, s, refused)
	release(t, s, r)
}

// A brief store makes no connection to wait for another transaction: many commands that wait for
// one key would fill the server.
func TestStore_Brief_busy(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int32
	conf.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		connections.Add(1)
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := postgres.New(pool, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.Brief()
	held, waiter := exclusive("key"), queueing(exclusive("key"))
	holder := made(t, url, opt)
	grant(t, holder, held)
	refuse(t, s, waiter)
	during := func(verb string, call func() error) {
		t.Helper()
		commit := holdKey(t, url, opt, exclusive("key"))
		before := connections.Load()
		done := make(chan error, 1)
		go func() { done <- call() }()
		time.Sleep(100 * time.Millisecond) // on a real server
		commit()
		if err := <-done; err != nil && !errors.Is(err, driver.ErrUnavailable) { // the commit may be late
			t.Errorf("%s: %v", verb, err)
		}
		if n := connections.Load() - before; n > 0 {
			t.Errorf("%s made %d connections to wait for another transaction, want none", verb, n)
		}
	}
	during("Acquire", func() error {
		_, err := s.Acquire(t.Context(), waiter)
		return err
	})
	during("Release", func() error { return s.Release(t.Context(), waiter.ID) })
	if err := releaseEventually(t.Context(), s, waiter); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		t.Error(err)
	}
	release(t, holder, held)
	empty(t, holder, "key")
}
