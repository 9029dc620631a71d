package quorum_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/quorum"
)

// An eager node grants every request at once, so that only the majority itself costs time.
type eager struct{ id string }

func (eager) Features() driver.Features {
	return driver.Features{
		Name: "eager", Fence: true, Floor: true, Value: true, Expiry: true, Detached: true, MinTTL: time.Millisecond,
	}
}

func (eager) Acquire(_ context.Context, r driver.Request) (driver.Result, error) {
	return driver.Result{Granted: true, Fence: r.Floor, Used: r.Weight}, nil
}

func (eager) Renew(context.Context, driver.Renewal) (int, error) { return 0, nil }
func (eager) Release(context.Context, driver.ID) error           { return nil }

func (e eager) Inspect(context.Context) (driver.Info, error) { return driver.Info{Identity: e.id}, nil }

// BenchmarkStore_pair measures an Acquire and a Release.
func BenchmarkStore_pair(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprint(n, " nodes"), func(b *testing.B) {
			nodes := make([]driver.Store, n)
			for i := range nodes {
				nodes[i] = eager{rand.Text()}
			}
			s, err := quorum.New(b.Context(), nodes, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				key := rand.Text()
				for pb.Next() {
					r := exclusive(key, 30*time.Second)
					if res, err := s.Acquire(b.Context(), r); err != nil || !res.Granted {
						b.Errorf("%+v, %v, want a grant", res, err)
					}
					if err := s.Release(b.Context(), r.ID); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
