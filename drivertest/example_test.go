package drivertest_test

import (
	"context"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/store/mem"
)

// The test file of a store calls the suite, here in virtual time.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestStore(t *testing.T)
		env := drivertest.Env{
			Virtual: true,
			Open:    func(t testing.TB) driver.Store { return mem.New() },
		}
		drivertest.Run(t, env)
		drivertest.Compare(t, env)
	}
}

// A store with a server is also tested behind a proxy that breaks its connection. Through opens a
// second store over the same claims, at another address: here both use the namespace of Open.
func ExampleFaults() {
	type store struct {
		driver.Store
		namespace string
	}
	connect := func(t testing.TB, addr, namespace string) driver.Store { // mystore.New(addr, namespace)
		return store{mem.New(), namespace}
	}
	_ = func(t *testing.T) { // func TestStore_faults(t *testing.T)
		const addr = "127.0.0.1:3306"
		drivertest.Faults(t, drivertest.Env{
			Open:   func(t testing.TB) driver.Store { return connect(t, addr, t.Name()) },
			Server: addr,
			Through: func(t testing.TB, s driver.Store, addr string) driver.Store {
				return connect(t, addr, s.(store).namespace)
			},
		})
	}
}

// A benchmark of a store shows which calls grow with the number of claims.
func ExampleBench() {
	_ = func(b *testing.B) { // func BenchmarkStore(b *testing.B)
		drivertest.Bench(b, drivertest.Env{
			Open: func(testing.TB) driver.Store { return mem.New() },
			Ping: func(ctx context.Context) error { return nil }, // a round trip to the server
		})
	}
}
