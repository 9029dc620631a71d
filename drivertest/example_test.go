package drivertest_test

import (
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/store/mem"
)

// A store's own test file calls the suite, here in virtual time.
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
