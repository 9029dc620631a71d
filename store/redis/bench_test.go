package redis_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// BenchmarkClients compares the two clients under the store: pairs of Acquire and Release on free keys, in turns of 100 ms.
func BenchmarkClients(b *testing.B) {
	srv := testenv.Redis(b)
	for _, crowd := range []int{1, 64} {
		b.Run(fmt.Sprint(crowd), func(b *testing.B) {
			count := map[string]*atomic.Int64{}
			for range max(b.N, 5) {
				for name, open := range adapters {
					s := open(b, login{addr: srv.Addr})
					if count[name] == nil {
						count[name] = new(atomic.Int64)
					}
					var wg sync.WaitGroup
					until := time.Now().Add(100 * time.Millisecond)
					for g := range crowd {
						wg.Go(func() {
							r := exclusive(fmt.Sprint("key-", g))
							for time.Now().Before(until) {
								if res, err := s.Acquire(b.Context(), r); err != nil || !res.Granted {
									b.Error(res, err)
									return
								}
								if err := s.Release(b.Context(), r.ID); err != nil {
									b.Error(err)
									return
								}
								count[name].Add(1)
							}
						})
					}
					wg.Wait()
				}
			}
			for name, n := range count {
				b.ReportMetric(float64(n.Load())/float64(max(b.N, 5))*10, name+"/s")
			}
		})
	}
}
