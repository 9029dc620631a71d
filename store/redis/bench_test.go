package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// BenchmarkClients compares the two clients under the store: pairs of Acquire and Release on free
// keys, alternating every 100 ms.
func BenchmarkClients(b *testing.B) {
	srv := testenv.Redis(b)
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			count := map[string]*atomic.Int64{}
			for range max(b.N, 5) {
				for name, open := range adapters {
					s := open(b, login{addr: srv.Addr})
					if count[name] == nil {
						count[name] = new(atomic.Int64)
					}
					var wg sync.WaitGroup
					until := time.Now().Add(100 * time.Millisecond)
					for g := range goroutines {
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

// BenchmarkHandOver measures the server's work on a key that 16 owners want: each grant is a
// release that hands the key over, and an attempt that adds an entry to the end of the queue.
func BenchmarkHandOver(b *testing.B) {
	srv := testenv.Redis(b)
	s := adapters["rueidis"](b, login{addr: srv.Addr})
	spent := func() float64 {
		out, err := srv.Do(b.Context(), "INFO", "commandstats")
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(fmt.Sprint(out), "cmdstat_evalsha:")
		_, rest, _ = strings.Cut(rest, "usec=")
		n, _ := strconv.ParseFloat(strings.SplitN(rest, ",", 2)[0], 64)
		return n
	}
	var queue []driver.Request
	for i := range 16 {
		r := exclusive("key")
		r.Owner, r.QueueTTL = fmt.Sprint("owner-", i), time.Minute
		if _, err := s.Acquire(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		queue = append(queue, r)
	}
	before := spent()
	for b.Loop() {
		r := queue[0]
		if err := s.Release(b.Context(), r.ID); err != nil {
			b.Fatal(err)
		}
		if res, err := s.Acquire(b.Context(), r); err != nil || res.Granted {
			b.Fatal(res, err)
		}
		queue = append(queue[1:], r)
	}
	b.ReportMetric((spent()-before)/float64(b.N), "server-us/op")
}
