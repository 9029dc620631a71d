package chaos_test

import (
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

// A link without faults behaves like the store behind it.
func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Env{Virtual: true, Open: func(t testing.TB) driver.Store {
		link := chaos.New(mem.New(), nil)
		t.Cleanup(link.Close)
		return link
	}})
}

// A store that pushes grants meets the same contract.
func TestHandOff(t *testing.T) {
	drivertest.Run(t, drivertest.Env{Virtual: true, Open: func(testing.TB) driver.Store { return chaos.HandOff(mem.New()) }})
}
