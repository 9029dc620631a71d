package etcd

import (
	"context"

	"github.com/distlock/distlock/driver"
)

// Inspect describes the cluster.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	return driver.Info{}, ctx.Err()
}
