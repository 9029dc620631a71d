package mem_test

import (
	"fmt"
	"strings"
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

// The identity of a store is its own, and does not depend on its address: two processes may have
// stores at the same address.
func TestStore_identity(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		s := &mem.Store{}
		first, err := s.Inspect(t.Context())
		again, err2 := s.Inspect(t.Context())
		if err != nil || err2 != nil || first.Identity != again.Identity || seen[first.Identity] {
			t.Errorf("%q, then %q, %v, %v; others have %v", first.Identity, again.Identity, err, err2, seen)
		}
		if strings.Contains(first.Identity, fmt.Sprintf("%p", s)) {
			t.Errorf("%q is the address of the store", first.Identity)
		}
		seen[first.Identity] = true
	}
}
