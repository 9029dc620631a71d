package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env opens the store in virtual time.
func env() drivertest.Env {
	return drivertest.Env{
		Virtual:   true,
		Open:      func(testing.TB) driver.Store { return mem.New() },
		Second:    func(_ testing.TB, s driver.Store) driver.Store { return s }, // a process has one
		Leftovers: func(_ testing.TB, s driver.Store) int { return s.(*mem.Store).Keys() },
	}
}

func TestStore(t *testing.T) { drivertest.Run(t, env()) }

// The zero Store is ready for use.
func TestStore_zero(t *testing.T) {
	e := env()
	e.Open = func(testing.TB) driver.Store { return &mem.Store{} }
	drivertest.Run(t, e)
}

func TestStore_compared(t *testing.T) { drivertest.Compare(t, env()) }

func BenchmarkStore(b *testing.B) { drivertest.Bench(b, env()) }
