package proof_test

import (
	"testing"
	"time"

	"github.com/distlock/distlock/internal/faults"
	"github.com/distlock/distlock/internal/history"
)

// Twenty seconds of each store: processes are stopped and killed, servers and the ways to them are broken, and no promise is.
func TestChaos(t *testing.T) {
	t.Parallel()
	for _, sys := range faults.Systems() {
		if sys.Memory {
			continue
		}
		t.Run(sys.Name, func(t *testing.T) {
			t.Parallel()
			o := faults.Options{Seed: *seed, Time: 20 * time.Second, TTL: ttl, Processes: 4, Keys: 3, Play: "chaos"}
			r := sys.Start(t, o).Run(t, o)
			v, err := r.Judge(history.Minimums{Grants: 300, ContendedWaits: 100, FaultsOverHold: 5})
			t.Log(v)
			if err != nil {
				t.Error(err)
			}
		})
	}
}
