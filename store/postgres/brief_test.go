package postgres_test

import (
	"fmt"
	"testing"
	"time"

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
