// Package kinds_test tests every kind of lock (semaphore, election, cron and others) on the real
// stores that have the features it needs. Tests that can run in virtual time are in the root
// package, on the memory store.
package kinds_test

import (
	"context"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/tests/internal/faults"
)

// soon is the limit for an immediate action on a busy machine.
const soon = 10 * time.Second

func TestMain(m *testing.M) {
	run := testenv.Main(m,
		testenv.Roles{"candidate": playCandidate, "slots": playSlots, "nested": playNested,
			faults.ServerRole: faults.Serve})
	flag.Parse()
	// The tests mostly wait, which needs no processor.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}

// stores return the URL of a new store for a test.
var stores = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") },
	"redis":    func(t *testing.T) string { return testenv.Redis(t).URL },
	"postgres": func(t *testing.T) string { return testenv.Postgres(t, testenv.Shared()).Database(t) },
	"mariadb":  func(t *testing.T) string { return testenv.MariaDB(t, testenv.Shared()).Database(t) },
	"redlock": func(t *testing.T) string {
		// A scheduler stall may last longer than the default of 100 ms.
		url := "redlock:?lock_node_limit=2s"
		for range 3 {
			url += "&node=" + testenv.Redis(t).URL
		}
		return url
	},
	"etcd": func(t *testing.T) string {
		return "etcd://" + strings.TrimPrefix(testenv.Etcd(t).Endpoints()[0], "http://") + "/test"
	},
	"remote": func(t *testing.T) string { return testenv.LockServer(t, faults.ServerRole, "").URL },
	"advisory": func(t *testing.T) string {
		return testenv.Postgres(t, testenv.Shared()).Database(t) + "&lock_mode=advisory"
	},
}

// onEach runs a test on each store with the needed features.
func onEach(t *testing.T, needs func(driver.Features) bool, test func(t *testing.T, url string)) {
	for name, at := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := at(t)
			if !needs(store(t, url).Features()) {
				t.Skip("the store does not have the features that this kind needs")
			}
			test(t, url)
		})
	}
}

// store opens the store of a URL.
func store(t *testing.T, url string) driver.Store {
	t.Helper()
	s, err := open.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Store
}

// locker returns a [distlock.Locker] with its own connections.
func locker(t *testing.T, url string, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	return lockerOn(t, store(t, url), opts...)
}

func lockerOn(t *testing.T, s driver.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return l
}
