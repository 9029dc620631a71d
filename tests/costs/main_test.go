// Package costs_test measures the costs of a lock in each store: commands, bytes and connections.
// The results are in docs/costs.md.
package costs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }
