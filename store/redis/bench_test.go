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

// BenchmarkHandOver shows what the server spends on a key that 16 want: each grant is a release that hands the key on, and
// an ask that takes a place at the end of the line.
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
	var line []driver.Request
	for i := range 16 {
		r := exclusive("key")
		r.Owner, r.QueueTTL = fmt.Sprint("owner-", i), time.Minute
		if _, err := s.Acquire(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		line = append(line, r)
	}
	before := spent()
	for b.Loop() {
		r := line[0]
		if err := s.Release(b.Context(), r.ID); err != nil {
			b.Fatal(err)
		}
		if res, err := s.Acquire(b.Context(), r); err != nil || res.Granted {
			b.Fatal(res, err)
		}
		line = append(line[1:], r)
	}
	b.ReportMetric((spent()-before)/float64(b.N), "server-us/op")
}
