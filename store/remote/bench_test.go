package remote_test

import (
	"context"
	"net/http"
	"testing"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/store/mem"
)

// pings/op is the cost of a call in calls of the server that do not reach its store.
func BenchmarkStore(b *testing.B) {
	_, addr := at(b, mem.New())
	transport := &http.Transport{}
	b.Cleanup(transport.CloseIdleConnections)
	c := api.NewStoreClient(&http.Client{Transport: transport}, "http://"+addr)
	drivertest.Bench(b, drivertest.Env{
		Open: func(t testing.TB) driver.Store {
			_, addr := at(t, mem.New())
			return open(t, "http://"+addr, nil)
		},
		Ping: func(ctx context.Context) error {
			_, err := c.Features(ctx, &api.FeaturesRequest{})
			return err
		},
	})
}
