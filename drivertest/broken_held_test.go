package drivertest

import (
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// heldFaults are wrong about how long something has been held.
func heldFaults() []fault {
	return []fault{
		{"held begins anew", []string{"show"}, tells(func(_ *bent, cs []driver.Claim) []driver.Claim {
			for i := range cs {
				cs[i].Held = 0
			}
			return cs
		})},
		{"held begins anew with a renewal", []string{"held"}, func(b *bent) {
			from := restarted(b)
			renews(func(_ *bent, r *driver.Renewal) { from(r.ID, !r.Keep) })(b)
		}},
		{"held begins anew with a record", []string{"held"}, func(b *bent) {
			from := restarted(b)
			renews(func(_ *bent, r *driver.Renewal) { from(r.ID, r.Keep) })(b)
		}},
		{"held begins anew with each ask in line", []string{"held"}, func(b *bent) {
			from := restarted(b)
			asks(func(b *bent, r *driver.Request) {
				c, ok := b.on(r.ID)
				from(r.ID, ok && c.Waiting)
			})(b)
		}},
		{"held counts the time in line", []string{"held"}, func(b *bent) {
			var mu sync.Mutex
			taken := map[string]time.Time{}
			asks(func(_ *bent, r *driver.Request) {
				mu.Lock()
				defer mu.Unlock()
				if tag := driver.Tag(r.Owner); taken[tag].IsZero() {
					taken[tag] = time.Now()
				}
			})(b)
			tells(func(_ *bent, cs []driver.Claim) []driver.Claim {
				mu.Lock()
				defer mu.Unlock()
				for i, c := range cs {
					cs[i].Held = time.Since(taken[c.Owner])
				}
				return cs
			})(b)
		}},
	}
}

// restarted makes Show tell Held from the last call of what it returns, if that is told that it counts.
func restarted(b *bent) func(id driver.ID, counts bool) {
	var mu sync.Mutex
	since := map[string]time.Time{} // by the owner's tag
	tells(func(_ *bent, cs []driver.Claim) []driver.Claim {
		mu.Lock()
		defer mu.Unlock()
		for i, c := range cs {
			if at, ok := since[c.Owner]; ok {
				cs[i].Held = min(c.Held, time.Since(at))
			}
		}
		return cs
	})(b)
	return func(id driver.ID, counts bool) {
		mu.Lock()
		defer mu.Unlock()
		if counts {
			since[driver.Tag(id.Owner)] = time.Now()
		}
	}
}
