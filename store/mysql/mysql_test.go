package mysql_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	client "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mysql"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Rules in real time sleep most of the time, so more of them than processors can run at once.
	if err := flag.Set("test.parallel", strconv.Itoa(max(12, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(testenv.Main(m, nil))
}

// config returns the configuration of a client for a URL.
func config(t testing.TB, raw string) *client.Config {
	t.Helper()
	conf, err := testenv.MariaDBConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

// made returns a store in the database of a URL.
func made(t testing.TB, url string, opt *mysql.Options) *mysql.Store {
	t.Helper()
	s, err := mysql.New(config(t, url), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A space is a store that knows its database.
type space struct {
	*mysql.Store
	url string
}

func opened(t testing.TB, url string) space { return space{made(t, url, nil), url} }

// many is how many keys and claims the rules about size use.
var many = flag.Int("many", 100, "how many keys and claims the rules about size use")

func env(t testing.TB) drivertest.Env {
	srv := testenv.MariaDB(t, testenv.Shared())
	return drivertest.Env{
		Many:   *many,
		Open:   func(t testing.TB) driver.Store { return opened(t, srv.Database(t)) },
		Second: func(t testing.TB, s driver.Store) driver.Store { return opened(t, s.(space).url) },
		Restart: func(t testing.TB, s driver.Store) driver.Store {
			if err := s.(space).Close(); err != nil {
				t.Error(err)
			}
			return opened(t, s.(space).url)
		},
		Leftovers: func(t testing.TB, s driver.Store) int {
			s.(space).Swept() // it sweeps in the background
			return leftovers(t, s.(space).url)
		},
		Raise: func(t testing.TB, s driver.Store, key string, fence uint64) {
			db := database(t, s.(space).url)
			if _, err := db.ExecContext(t.Context(), "UPDATE distlock_claim SET last = ? WHERE lock_key = ? AND slot = ''", fence, key); err != nil {
				t.Fatal(err)
			}
		},
		Server: srv.Addr,
		Through: func(t testing.TB, s driver.Store, addr string) driver.Store {
			return opened(t, on(t, s.(space).url, addr))
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, env(t))
}

func TestStore_compared(t *testing.T) {
	t.Parallel()
	drivertest.Compare(t, env(t))
}

func TestStore_faults(t *testing.T) {
	t.Parallel()
	drivertest.Faults(t, env(t))
}
