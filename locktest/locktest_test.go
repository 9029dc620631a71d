package locktest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A store without commands follows the contract.
func TestStore(t *testing.T) {
	drivertest.Run(t, env(func(t testing.TB) driver.Store { return locktest.New(t) }))
}

func TestStore_compared(t *testing.T) {
	drivertest.Compare(t, env(func(t testing.TB) driver.Store { return locktest.New(t) }))
}

// A store whose commands have ended follows the contract.
func TestStore_healed(t *testing.T) {
	drivertest.Run(t, env(func(t testing.TB) driver.Store {
		s := locktest.New(t).Link()
		s.Cut()
		s.Freeze()
		s.Down()
		s.Delay(1)
		s.Hold("key", "rival").Release()
		s.Up()
		s.Thaw()
		s.Heal()
		s.Delay(0)
		return s
	}))
}

func env(open func(t testing.TB) driver.Store) drivertest.Env {
	return drivertest.Env{Virtual: true, Open: open}
}
