package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/distlock/distlock/driver"
)

// A call that found its connection ended was not sent: it can go out on another one, and nothing
// was changed.
func TestDefinite_unsent(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("%w: EOF", errUnsent)
	if !unserved([]*call{{}}, err) {
		t.Error("it does not go out on another connection")
	}
	if err := definite(err, false); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if err := definite(fmt.Errorf("%w: EOF", errLost), false); errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want an error that leaves the outcome open", err)
	}
}
