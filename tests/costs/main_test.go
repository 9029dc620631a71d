// Package costs_test measures what a lock costs in each store: commands, bytes and connections. docs/costs.md has what it measured.
package costs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }
