package quorum_test

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/quorum"
)

func TestMain(m *testing.M) {
	// The command line may set more: scripts/check chaos does.
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// TestStore checks the contract, with healthy nodes and with a minority of nodes in trouble.
func TestStore(t *testing.T) {
	down := func(c *cluster) { c.links[0].Cut(chaos.All) }
	frozen := func(c *cluster) { c.links[0].Freeze() }
	for name, o := range map[string]options{
		"3 nodes":             {nodes: 3},
		"5 nodes":             {nodes: 5},
		"3 nodes, new":        {nodes: 3, fresh: true},
		"3 nodes, far":        {nodes: 3, latency: 10 * time.Millisecond},
		"3 nodes, one down":   {nodes: 3, trouble: down},
		"3 nodes, one frozen": {nodes: 3, trouble: frozen},
		"5 nodes, one down":   {nodes: 5, trouble: down},
		"3 nodes, clocks apart": {nodes: 3,
			clocks: []time.Duration{time.Millisecond, -time.Millisecond, 3 * time.Millisecond}},
		"5 nodes, clocks ahead": {
			nodes: 5, apart: true,
			clocks: []time.Duration{5 * time.Second, 5001 * time.Millisecond,
				5002 * time.Millisecond, 4 * time.Second, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if o.latency == 0 {
				o.latency = time.Millisecond
			}
			env := drivertest.Env{
				Virtual: true,
				Open:    func(t testing.TB) driver.Store { return open(t, o).store },
				Leftovers: func(_ testing.TB, s driver.Store) int {
					time.Sleep(time.Second) // until no call is under way
					return quorum.Leftovers(s.(*quorum.Store))
				},
			}
			if name != "3 nodes" {
				env.Many = 50
			}
			drivertest.Run(t, env)
			if !o.apart {
				drivertest.Compare(t, env)
			}
		})
	}
}
