package drivertest

import (
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// heldFaults are wrong about Held.
func heldFaults() []fault {
	return []fault{
		{"held starts again", []string{"show"}, shown(func(_ *bent, cs []driver.Claim) []driver.Claim {
			for i := range cs {
				cs[i].Held = 0
			}
			return cs
		})},
		{"held starts again with a renewal", []string{"held"}, func(b *bent) {
			from := restarted(b)
			renews(func(_ *bent, r *driver.Renewal) { from(r.ID, !r.Keep) })(b)
		}},
		{"held starts again with a record", []string{"held"}, func(b *bent) {
			from := restarted(b)
			renews(func(_ *bent, r *driver.Renewal) { from(r.ID, r.Keep) })(b)
		}},
		{"held starts again with each attempt of a waiter", []string{"held"}, func(b *bent) {
			from := restarted(b)
			requests(func(b *bent, r *driver.Request) {
				c, ok := b.on(r.ID)
				from(r.ID, ok && c.Waiting)
			})(b)
		}},
		{"held includes the time in the queue", []string{"held"}, func(b *bent) {
			var mu sync.Mutex
			arrived := map[string]time.Time{}
			requests(func(_ *bent, r *driver.Request) {
				mu.Lock()
				defer mu.Unlock()
				if tag := driver.Tag(r.Owner); arrived[tag].IsZero() {
					arrived[tag] = time.Now()
				}
			})(b)
			shown(func(_ *bent, cs []driver.Claim) []driver.Claim {
				mu.Lock()
				defer mu.Unlock()
				for i, c := range cs {
					cs[i].Held = time.Since(arrived[c.Owner])
				}
				return cs
			})(b)
		}},
	}
}

// restarted makes Show count Held from the last call of the function that it returns, if counts was
// true.
func restarted(b *bent) func(id driver.ID, counts bool) {
	var mu sync.Mutex
	since := map[string]time.Time{} // by the owner's tag
	shown(func(_ *bent, cs []driver.Claim) []driver.Claim {
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
