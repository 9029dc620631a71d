package rueidis_test

import (
	"crypto/rand"
	"testing"

	client "github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/rueidis"
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
	s, err := rueidis.New(c, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// env reaches a store with a prefix of its own on the server that all laws share.
func env(srv *testenv.RedisServer) drivertest.Env {
	return drivertest.Env{
		Open: func(t testing.TB) driver.Store {
			return open(t, connect(t, srv.Addr), &redis.Options{Prefix: "law-" + rand.Text() + ":"})
		},
	}
}

func TestStore(t *testing.T) { drivertest.Run(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore_compared(t *testing.T) { drivertest.Compare(t, env(testenv.Redis(t, testenv.Shared()))) }
