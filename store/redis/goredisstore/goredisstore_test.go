package goredisstore_test

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

func open(t testing.TB, c client.UniversalClient, opt *redis.Options) *redis.Store {
	t.Helper()
	t.Cleanup(func() { c.Close() })
	s, err := goredisstore.New(c, opt)
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
	c := client.NewClient(&client.Options{Addr: addr})
	return space{open(t, c, &redis.Options{Prefix: prefix}), prefix}
}

func TestStore_faults(t *testing.T) { drivertest.Faults(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore(t *testing.T) { drivertest.Run(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestStore_compared(t *testing.T) { drivertest.Compare(t, env(testenv.Redis(t, testenv.Shared()))) }

func TestNew_refused(t *testing.T) {
	ring := client.NewRing(&client.RingOptions{})
	defer ring.Close()
	plain := client.NewClient(&client.Options{})
	defer plain.Close()
	auto, err := plain.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	defer auto.Close()
	for name, c := range map[string]client.UniversalClient{
		"ring": ring, "auto": auto, "wrapped": wrapped{plain}, "nil": nil, "nil client": (*client.Client)(nil),
	} {
		if _, err := goredisstore.New(c, nil); err == nil || !strings.Contains(err.Error(), ": give ") {
			t.Errorf("%s: error %v, want a refusal that names the client to give", name, err)
		}
	}
}

// wrapped is a client of another type.
type wrapped struct{ client.UniversalClient }

// A store that is closed sends nothing, although the client of the caller is open.
func TestStore_closed(t *testing.T) {
	t.Parallel()
	s := spaced(t, testenv.Redis(t, testenv.Shared()).Addr, "closed:")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := driver.Request{
		ID: driver.ID{Key: "key", Owner: "owner"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	}
	_, acquired := s.Acquire(t.Context(), r)
	_, inspected := s.Inspect(t.Context())
	for verb, err := range map[string]error{"Acquire": acquired, "Inspect": inspected} {
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s after Close: %v, want ErrUnavailable", verb, err)
		}
	}
}
