package postgres_test

import (
	"crypto/rand"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Rules in real time sleep most of the time, so more of them than processors can run at once.
	if err := flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testenv.Main(m, roles))
}

// pooled returns a pool of a few connections.
func pooled(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func made(t testing.TB, url string, opt *postgres.Options) *postgres.Store {
	t.Helper()
	return newStore(t, pooled(t, url), opt)
}

func newStore(t testing.TB, pool *pgxpool.Pool, opt *postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.New(pool, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fresh returns options for a new schema.
func fresh(t testing.TB) *postgres.Options {
	opt := &postgres.Options{Schema: `Te"st ` + rand.Text()[:12]}
	srv := testenv.Postgres(t, testenv.Shared())
	t.Cleanup(func() { query(t, srv, `drop schema if exists "`+strings.ReplaceAll(opt.Schema, `"`, `""`)+`" cascade`) })
	return opt
}

// many is how many keys and claims the rules about size use.
var many = flag.Int("many", 100, "how many keys and claims the rules about size use")

func env() drivertest.Env {
	return drivertest.Env{
		Many: *many,
		Open: func(t testing.TB) driver.Store {
			return opened(t, testenv.Postgres(t, testenv.Shared()).URL, fresh(t))
		},
		Second: func(t testing.TB, s driver.Store) driver.Store {
			return opened(t, testenv.Postgres(t, testenv.Shared()).URL, s.(space).opt)
		},
		Raise: func(t testing.TB, s driver.Store, key string, fence uint64) {
			query(t, testenv.Postgres(t, testenv.Shared()), fmt.Sprintf(`update "%s".key set fence = %d where key = '%s'`,
				strings.ReplaceAll(s.(space).opt.Schema, `"`, `""`), fence, key))
		},
	}
}

// A space is a store that knows its schema.
type space struct {
	*postgres.Store
	opt *postgres.Options
}

func opened(t testing.TB, url string, opt *postgres.Options) space {
	return space{made(t, url, opt), opt}
}

func TestStore_faults(t *testing.T) {
	t.Parallel()
	e, srv := env(), testenv.Postgres(t, testenv.Shared())
	e.Server = srv.Addr
	e.Through = func(t testing.TB, s driver.Store, addr string) driver.Store {
		return opened(t, on(t, srv.URL, addr, ""), s.(space).opt)
	}
	drivertest.Faults(t, e)
}

func TestStore(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, env())
}

func TestStore_compared(t *testing.T) {
	t.Parallel()
	drivertest.Compare(t, env())
}
