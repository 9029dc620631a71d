package sqlite_test

import (
	"context"
	"flag"
	"iter"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/sqlite"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Rules in real time sleep most of the time: more of them than processors can run at once.
	if err := flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testenv.Main(m, roles))
}

// opened opens a file, and closes it at the end of the test.
func opened(t testing.TB, path string, opt *sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opt)
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

// on opens a file on a simulated machine.
func on(t testing.TB, path string, m sqlite.Machine) *sqlite.Store {
	t.Helper()
	s, err := sqlite.OpenOn(path, &sqlite.Options{Polling: true}, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func virtual() drivertest.Env {
	// In a bubble time.Now is virtual, and the clock of the host is not.
	m := sqlite.Machine{Boot: "bubble",
		Elapsed: func() time.Duration { return time.Duration(time.Now().UnixNano()) }}
	return drivertest.Env{
		Virtual: true,
		Open: func(t testing.TB) driver.Store {
			return on(t, filepath.Join(t.TempDir(), "locks.db"), m)
		},
		Restart: func(t testing.TB, s driver.Store) driver.Store {
			s.(*sqlite.Store).Close()
			return on(t, s.(*sqlite.Store).Path(), m)
		},
		Second:    func(t testing.TB, s driver.Store) driver.Store { return on(t, s.(*sqlite.Store).Path(), m) },
		Leftovers: func(_ testing.TB, s driver.Store) int { return s.(*sqlite.Store).Rows() - 1 }, // the other key
	}
}

func TestStore_virtual(t *testing.T) { drivertest.Run(t, virtual()) }

func TestStore_virtual_compared(t *testing.T) { drivertest.Compare(t, virtual()) }

// A pair is two stores on one file. An owner acquires and waits at one of them, and renews and
// releases at the other.
type pair [2]*sqlite.Store

func (p pair) of(owner string) *sqlite.Store {
	return p[len(driver.Tag(owner)+owner)&1^int(driver.Tag(owner)[0]&1)]
}

func (p pair) not(owner string) *sqlite.Store {
	if p.of(owner) == p[0] {
		return p[1]
	}
	return p[0]
}

func (p pair) Features() driver.Features { return p[0].Features() }

func (p pair) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	return p.of(r.Owner).Acquire(ctx, r)
}

func (p pair) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	return p.not(r.Owner).Renew(ctx, r)
}

func (p pair) Release(ctx context.Context, id driver.ID) error {
	return p.not(id.Owner).Release(ctx, id)
}

func (p pair) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return p.of(id.Owner).Watch(ctx, id)
}

func (p pair) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return p[1].Show(ctx, key)
}

func (p pair) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return p[0].List(ctx, prefix)
}

func (p pair) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return p[0].Break(ctx, key, upTo, reason)
}

func (p pair) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	return p[1].RenewAll(ctx, rs)
}

func (p pair) Inspect(ctx context.Context) (driver.Info, error) { return p[0].Inspect(ctx) }

func two() drivertest.Env {
	return drivertest.Env{
		Open: func(t testing.TB) driver.Store {
			path := filepath.Join(t.TempDir(), "locks.db")
			return pair{opened(t, path, nil), opened(t, path, nil)}
		},
		Restart: func(t testing.TB, s driver.Store) driver.Store {
			p := s.(pair)
			p[0].Close()
			p[1].Close()
			return pair{opened(t, p[0].Path(), nil), opened(t, p[0].Path(), nil)}
		},
		Second: func(t testing.TB, s driver.Store) driver.Store { return opened(t, s.(pair)[0].Path(), nil) },
	}
}

func TestStore_two(t *testing.T) { drivertest.Run(t, two()) }

func TestStore_two_compared(t *testing.T) {
	t.Parallel()
	drivertest.Compare(t, two())
}
