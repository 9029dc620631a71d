package drivertest_test

import (
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
)

func TestExampleStore(t *testing.T) {
	env := drivertest.Env{
		Open:    func(testing.TB) driver.Store { return newExampleStore() },
		Virtual: true,
		Leftovers: func(_ testing.TB, s driver.Store) int {
			return len(s.(*exampleStore).keys)
		},
	}
	drivertest.Run(t, env)
	drivertest.Compare(t, env)
}
