package guarantees_test

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/quorum"
)

// five also runs the rules over five nodes.
var five = flag.Bool("five", false, "also run the rules over five nodes")

// The rules of drivertest, on a majority of independent servers. A node has as much time as the TTL
// allows, because a busy machine may need it.
func TestRules_redlock(t *testing.T) {
	t.Parallel()
	const ttl = 8 * time.Second
	nodes := []int{3}
	if *five {
		nodes = append(nodes, 5)
	}
	for _, n := range nodes {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			t.Parallel()
			var addrs []string
			for range n {
				addrs = append(addrs, testenv.Redis(t).Addr)
			}
			var opened atomic.Int64
			drivertest.Run(t, drivertest.Env{TTL: ttl, Many: 50, Open: func(t testing.TB) driver.Store {
				var nodes []driver.Store
				prefix := fmt.Sprintf("?lock_prefix=%d:", opened.Add(1))
				for _, addr := range addrs {
					nodes = append(nodes, openURL(t, testenv.URL("redis", addr)+prefix))
				}
				q, err := quorum.New(t.Context(), nodes, &quorum.Options{NodeLimit: 4 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(q.Close)
				return q
			}})
		})
	}
}
