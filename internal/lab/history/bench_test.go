package history

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkRecorder(b *testing.B) {
	r := New()
	until := time.Now().Add(time.Hour)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			h := r.Acquire(Want{Client: "c", Key: "k"})
			h.Granted(1, until)
			h.Release().End(Done)
		}
	})
}

// long returns a history of n correct holds in sequence on one key, with a waiter each.
func long(n int) *History {
	h := &History{}
	var seq int64
	stamp := func() Stamp {
		seq++
		h.End = time.Duration(seq) * time.Microsecond
		return Stamp{At: h.End, Seq: seq}
	}
	for i := range n {
		id := int64(i + 1)
		a := Op{Kind: Acquire, Outcome: Granted, Key: "k", Client: "c", Hold: id, Fence: uint64(id), Weight: 1, Limit: 1}
		a.Call, a.Wait, a.Return = stamp(), stamp(), stamp()
		a.Until = a.Return.At + time.Second
		r := Op{Kind: Release, Outcome: Done, Key: "k", Client: "c", Hold: id}
		r.Call, r.Return = stamp(), stamp()
		h.Ops = append(h.Ops, a, r)
	}
	return h
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 500_000} {
		b.Run(fmt.Sprintf("ops=%d", 2*n), func(b *testing.B) {
			h := long(n)
			b.ResetTimer()
			for b.Loop() {
				if err := Check(h, Rules{HandOver: time.Hour}).Err(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*n), "ns/op-checked")
		})
	}
}

func BenchmarkModel(b *testing.B) {
	for _, n := range []int{150, 1_000} {
		b.Run(fmt.Sprintf("ops=%d", 2*n), func(b *testing.B) {
			h := long(n)
			b.ResetTimer()
			for b.Loop() {
				if _, err := Verify(h, Rules{}, Search{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
