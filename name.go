package distlock

import "github.com/distlock/distlock/internal/names"

const (
	maxName   = names.Max // bytes of a name
	maxHolder = 128       // bytes of a holder
	maxValue  = 64 << 10  // bytes of a value or a result
)

// checkName returns an ErrInvalid if s is not a name. Every other string is a name on every
// store.
func checkName(s string) error {
	if why := names.Flaw(s); why != "" {
		return &ArgumentError{"name", why}
	}
	return nil
}
