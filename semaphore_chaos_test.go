package distlock_test

import (
	"testing"
)

// TestSemaphore_chaos lets processes with bad links contend for slots of any weight. Both checkers
// know weights: at no moment do the trusted leases have more slots than the semaphore.
func TestSemaphore_chaos(t *testing.T) {
	histories := uint64(*seeds) / 2
	var sum totals
	for seed := *firstSeed; seed < *firstSeed+histories; seed++ {
		size := int64(1 + seed%5)
		v, err := bubble(t, seed, size)
		if err != nil {
			t.Fatalf("seed %d, %d slots: %v", seed, size, err)
		}
		sum.add(v)
	}
	t.Logf("%d histories: %d grants, %d contended waits, %d faults over a hold, %d losses, %d unknown outcomes, over the limit in none",
		sum.bubbles, sum.grants, sum.waits, sum.faults, sum.losses, sum.unknown)
	if histories >= 200 && (sum.losses == 0 || sum.unknown == 0 || sum.clean == 0) {
		t.Error("nothing was lost, unknown or clean: the faults have no effect")
	}
}
