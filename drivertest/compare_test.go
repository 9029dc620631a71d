package drivertest

import (
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

// TestCompare_runs shows that Compare makes Env.Runs runs, and closes the store of each when the
// run has ended.
func TestCompare_runs(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		var mu sync.Mutex
		var opened, live, most int
		env := bentEnv(nil)
		open := env.Open
		env.Virtual, env.TTL, env.Runs = virtual, 10*time.Millisecond, 6
		env.Open = func(t testing.TB) driver.Store {
			mu.Lock()
			defer mu.Unlock()
			opened, live = opened+1, live+1
			most = max(most, live)
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				live--
			})
			if !virtual {
				return newBent()
			}
			return open(t)
		}
		Compare(t, env)
		if opened != 7 { // one of them only for its features
			t.Errorf("virtual %v: %d stores were opened, want 7", virtual, opened)
		}
		if most > realTogether+1 || live != 0 {
			t.Errorf("virtual %v: %d stores were open at one time, %d at the end", virtual, most, live)
		}
	}
}
