package etcd_test

import (
	"crypto/rand"
	"flag"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/etcd"
)

func TestMain(m *testing.M) {
	// Leases last for seconds, and the rules mostly wait for them: so all rules run at once.
	flag.Parse()
	_ = flag.Set("test.parallel", "128")
	goleak.VerifyTestMain(testenv.Main(m, nil))
}

// connect returns a client, which is closed after the test.
func connect(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// store opens a store with a prefix.
func store(t testing.TB, c *clientv3.Client, prefix string) *etcd.Store {
	t.Helper()
	s, err := etcd.New(c, &etcd.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// env describes a cluster for the rules of the contract. A lease of etcd lives for whole seconds
// and ends up to a second late, so the unit of time is 4 s.
func env(e *testenv.EtcdCluster) drivertest.Env {
	return drivertest.Env{
		TTL:   4 * time.Second,
		Grain: time.Second,
		Runs:  4, // together
		Open:  func(t testing.TB) driver.Store { return store(t, connect(t, e.Endpoints()...), rand.Text()) },
		Through: func(t testing.TB, s driver.Store, addr string) driver.Store {
			return store(t, connect(t, addr), s.(*etcd.Store).Prefix())
		},
		Server: strings.TrimPrefix(e.Endpoints()[0], "http://"),
		Restart: func(t testing.TB, s driver.Store) driver.Store {
			return store(t, connect(t, e.Endpoints()...), s.(*etcd.Store).Prefix())
		},
		Leftovers: func(t testing.TB, s driver.Store) int {
			resp, err := connect(t, e.Endpoints()...).Get(t.Context(), s.(*etcd.Store).Prefix(),
				clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				t.Fatal(err)
			}
			return int(resp.Count)
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, env(testenv.Etcd(t)))
}

func TestStore_compared(t *testing.T) {
	t.Parallel()
	drivertest.Compare(t, env(testenv.Etcd(t)))
}

func TestStore_faults(t *testing.T) {
	t.Parallel()
	drivertest.Faults(t, env(testenv.Etcd(t)))
}

func BenchmarkStore(b *testing.B) { drivertest.Bench(b, env(testenv.Etcd(b))) }
