package postgres

import (
	"context"

	"github.com/distlock/distlock/driver"
)

// Inspect tells what the server says of itself.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	return driver.Info{}, ctx.Err()
}
