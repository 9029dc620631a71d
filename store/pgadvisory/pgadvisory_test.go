package pgadvisory_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/pgadvisory"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Rules in real time sleep most of the time, so more of them than processors can run at once.
	if err := flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testenv.Main(m, roles))
}

// opened opens a store, and closes it with the test.
func opened(t testing.TB, url string) *pgadvisory.Store {
	t.Helper()
	s, err := pgadvisory.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// server returns the shared server and the URL of a new database.
func server(t testing.TB) (*testenv.PostgresServer, string) {
	t.Helper()
	pg := testenv.Postgres(t, testenv.Shared())
	return pg, pg.Database(t)
}

func env(url string) drivertest.Env {
	return drivertest.Env{Open: func(t testing.TB) driver.Store { return opened(t, url) }}
}

func TestStore(t *testing.T) {
	_, url := server(t)
	drivertest.Run(t, env(url))
}

func TestStore_compare(t *testing.T) {
	_, url := server(t)
	drivertest.Compare(t, env(url))
}

// TestStore_few_connections runs the rules where readers must share connections, and nobody waits
// in the server's queue.
func TestStore_few_connections(t *testing.T) {
	_, url := server(t)
	e := env(url + "&lock_conns=1&lock_waits=-1")
	e.Many = 50
	drivertest.Run(t, e)
}

func TestStore_unfenced(t *testing.T) {
	_, url := server(t)
	e := env(url + "&lock_unfenced=true")
	e.Many = 50
	drivertest.Run(t, e)
}

func exclusive(key string, ttl time.Duration) driver.Request {
	return driver.Request{ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole,
		Limit: driver.Whole, TTL: ttl}
}

func shared(key string, ttl time.Duration) driver.Request {
	r := exclusive(key, ttl)
	r.Weight = 1
	return r
}

// take checks that a claim is granted.
func take(t testing.TB, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(context.WithoutCancel(t.Context()), r)
	if err != nil || !res.Granted {
		t.Fatalf("Acquire: %+v, %v", res, err)
	}
	return res
}

// refused checks that a claim is refused.
func refused(t testing.TB, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil || res.Granted {
		t.Fatalf("Acquire: %+v, %v, want refused", res, err)
	}
	return res
}

func free(t testing.TB, s driver.Store, id driver.ID) {
	t.Helper()
	if err := s.Release(t.Context(), id); err != nil {
		t.Fatal("Release:", err)
	}
}

// soon waits until f returns nil, and fails with its last error.
func soon(t testing.TB, within time.Duration, f func() error) {
	t.Helper()
	for by := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(by) {
			t.Fatal(err)
		}
	}
}

// got attempts r, and returns an error if it is refused.
func got(t testing.TB, s driver.Store, r driver.Request) error {
	res, err := s.Acquire(t.Context(), r)
	if err == nil && !res.Granted {
		err = fmt.Errorf("refused by %+v", res.Blocker)
	}
	return err
}
