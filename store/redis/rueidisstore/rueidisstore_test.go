package rueidisstore_test

import (
	"crypto/rand"
	"testing"

	client "github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, nil), testenv.IgnoreRueidis()...)
}

func connect(t testing.TB, addrs ...string) client.Client {
	c, err := client.NewClient(client.ClientOption{InitAddress: addrs, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t testing.TB, c client.Client, opt *redis.Options) *redis.Store {
	s, err := rueidisstore.New(c, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// env opens stores with a prefix of their own on the server that all rules share.
func env(srv *testenv.RedisServer) drivertest.Env {
	return drivertest.Env{
		Open: func(t testing.TB) driver.Store {
			return spaced(t, srv.Addr, "rule-"+rand.Text()+":")
		},
		Server: srv.Addr,
		Through: func(t testing.TB, s driver.Store, addr string) driver.Store {
			return spaced(t, addr, s.(space).prefix)
		},
	}
}

// A space is a store that knows its prefix.
type space struct {
	*redis.Store
	prefix string
}

func spaced(t testing.TB, addr, prefix string) space {
	return space{open(t, connect(t, addr), &redis.Options{Prefix: prefix}), prefix}
}

func TestStore_faults(t *testing.T) { drivertest.Faults(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore(t *testing.T) { drivertest.Run(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore_compared(t *testing.T) { drivertest.Compare(t, env(testenv.Redis(t, testenv.Shared()))) }
