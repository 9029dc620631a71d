package guarantees_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
)

// A load has clients that compete for keys, and the history of their calls.
type load struct{ workload.Load }

func newLoad(ttl time.Duration, key func(*rand.Rand) string) *load {
	return &load{workload.Load{
		Recorder: history.New(), TTL: ttl, Key: key,
		Pause: 10 * time.Millisecond, Work: 6 * time.Millisecond, Long: 30, Wait: time.Minute,
	}}
}

func (d *load) client(name string, l *distlock.Locker, seed uint64) *workload.Client {
	return &workload.Client{Load: &d.Load, Name: name, Locker: l, Rand: rand.New(rand.NewPCG(seed, 5))}
}

// until waits until there were n grants.
func (d *load) until(t testing.TB, n int) {
	t.Helper()
	for began := time.Now(); d.Grants.Load() < int64(n); time.Sleep(time.Millisecond) {
		if time.Since(began) > 4*soon {
			t.Fatalf("%d grants instead of %d after %v", d.Grants.Load(), n, 4*soon)
		}
	}
}
