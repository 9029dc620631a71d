package costs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/open"
)

// Sizes of the measurements. Averages are stable with these sizes.
const (
	holds  = 200
	leases = 100
	names  = 1000
	life   = 1500 * time.Millisecond // the TTL while renewals are counted
	watch  = 3 * time.Second         // how long a wait is measured
)

// A bill has the costs of a store. A cost that was not measured is NaN.
type bill struct {
	store string

	hold        tally // acquire and release of a lock
	inner, disk float64
	renewal     tally // of one lease among many that are renewed together
	wait        tally // a second of waiting
	handOff     tally // from one process to another
	idle        tally // a second without calls

	connsOpen, connsHold, connsWait float64 // open connections of a process
	heldBytes, heldRows             float64 // of a name that is held
	freeBytes, freeRows             float64 // of a name that was held before
}

// TestCosts measures the costs that do not depend on the machine or its load, and compares them
// with docs/costs.md. With -update it measures all costs and writes the page. That needs an idle
// machine.
func TestCosts(t *testing.T) {
	bills := make([]bill, len(subjects))
	// For some stores the memory and the writes of this whole process are measured. These stores
	// are measured one by one.
	for _, alone := range []bool{true, false} {
		ok := t.Run(fmt.Sprint("alone ", alone), func(t *testing.T) {
			for i, s := range subjects {
				if s.alone != alone || alone && !*update {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					if !alone {
						t.Parallel()
					}
					made := s.make(t)
					made.name = s.name
					bills[i] = measure(t, made)
				})
			}
		})
		if !ok {
			t.FailNow()
		}
	}
	if *update {
		write(t, bills)
		return
	}
	compare(t, slices.DeleteFunc(bills, func(b bill) bool { return b.store == "" }))
}

// measure measures a store.
func measure(t *testing.T, s subject) bill {
	b := bill{store: s.name}
	l := connect(t, s, "billing-7f9c:4711")
	pairs(t, l, "warm", 20) // loads scripts, prepares statements
	_, b.connsOpen = s.read()

	_, inner, disk := s.snap()
	b.hold = s.each(t, l, "invoice", holds)
	_, inner2, disk2 := s.snap()
	b.inner, b.disk = (inner2-inner)/holds, (disk2-disk)/holds

	b.storage(t, s, l)
	if s.meter == nil || !*update {
		return b
	}
	b.renewals(t, s)
	b.waits(t, s, l)
	return b
}

// each measures pairs one by one and returns the median of each figure. An average would depend on
// the duration of the pairs, because a client pings its server once a second, and a slow node of
// Redlock answers after the pair has ended.
func (s subject) each(t *testing.T, l *distlock.Locker, what string, n int) tally {
	t.Helper()
	var all []tally
	before, _ := s.read()
	for i := range n {
		pair(t, l, what, i)
		after, _ := s.read()
		all = append(all, after.minus(before))
		before = after
	}
	median := func(of func(tally) float64) float64 {
		slices.SortFunc(all, func(a, b tally) int { return cmp.Compare(of(a), of(b)) })
		return of(all[len(all)/2])
	}
	return tally{
		conns:    median(func(a tally) float64 { return a.conns }),
		commands: median(func(a tally) float64 { return a.commands }),
		trips:    median(func(a tally) float64 { return a.trips }),
		sent:     median(func(a tally) float64 { return a.sent }),
		received: median(func(a tally) float64 { return a.received }),
	}
}

// connect returns a [distlock.Locker] with its own connections.
func connect(t *testing.T, s subject, holder string, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	ctx := context.Background()
	source, err := open.Open(ctx, s.url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := distlock.New(source.Store, append(opts, distlock.Holder(holder))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close(ctx)
		source.Close()
	})
	return l
}

func pairs(t *testing.T, l *distlock.Locker, what string, n int) {
	t.Helper()
	for i := range n {
		pair(t, l, what, i)
	}
}

// pair acquires and releases a name.
func pair(t *testing.T, l *distlock.Locker, what string, i int) {
	t.Helper()
	lease := take(t, l, fmt.Sprintf("%s/%05d", what, i))
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, l *distlock.Locker, name string, opts ...distlock.Option) *distlock.Lease {
	t.Helper()
	lease, err := l.Lock(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// read returns the traffic so far, and the number of open connections.
func (s subject) read() (tally, float64) {
	if s.meter == nil {
		return tally{}, 0
	}
	total, n := s.meter.now()
	return total, float64(n)
}

func (s subject) snap() (total tally, inner, disk float64) {
	total, _ = s.read()
	return total, or(s.inner()), or(s.disk())
}

func or(f float64, ok bool) float64 {
	if !ok {
		return math.NaN()
	}
	return f
}

// storage measures the storage of names while they are held and after their release.
func (b *bill) storage(t *testing.T, s subject, l *distlock.Locker) {
	bytes, rows := s.size()
	var all []*distlock.Lease
	for i := range names {
		all = append(all, take(t, l, fmt.Sprintf("resting/%05d", i), distlock.TTL(time.Minute)))
	}
	heldBytes, heldRows := s.size()
	_, b.connsHold = s.read()
	for _, lease := range all {
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	clear(all) // frees the memory of the leases
	freeBytes, freeRows := s.size()
	b.heldBytes, b.heldRows = (heldBytes-bytes)/names, (heldRows-rows)/names
	b.freeBytes, b.freeRows = (freeBytes-bytes)/names, (freeRows-rows)/names
}

// renewals measures the costs of the renewals of many leases.
func (b *bill) renewals(t *testing.T, s subject) {
	var renewed atomic.Int64
	life := max(life, s.least)
	l := connect(t, s, "billing-7f9c:4711", distlock.TTL(life), distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventRenewed {
			renewed.Add(1)
		}
	}))
	for i := range leases {
		// A node of Redlock has a tenth of the TTL, which may be too short on a busy machine.
		_, err := l.Lock(t.Context(), fmt.Sprintf("kept/%05d", i))
		for tries := 1; tries < 20 &&
			(errors.Is(err, distlock.ErrUnknown) || errors.Is(err, distlock.ErrUnavailable)); tries++ {
			_, err = l.Lock(t.Context(), fmt.Sprintf("kept/%05d", i))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(life) // the first renewals come one by one, like the leases
	// A busy machine splits renewals that belong together, which only increases the costs. So the
	// lowest costs of several spans count.
	for span := range 3 {
		before, _ := s.read()
		from := renewed.Load()
		time.Sleep(2 * life)
		after, _ := s.read()
		n := float64(renewed.Load() - from)
		if n == 0 {
			t.Fatal("nothing was renewed")
		}
		if one := after.minus(before).per(n); span == 0 || one.commands < b.renewal.commands {
			b.renewal = one
		}
	}
	// On a busy machine some leases may be lost, which changes no average.
	_ = l.ReleaseAll(context.Background())
}

// waits measures the costs of a waiter, and of the hand-off that ends the wait.
func (b *bill) waits(t *testing.T, s subject, l *distlock.Locker) {
	lease := take(t, l, "contended", distlock.TTL(time.Minute))
	time.Sleep(100 * time.Millisecond)
	_, conns := s.read()
	before, _ := s.read()
	time.Sleep(watch)
	after, _ := s.read()
	b.idle = after.minus(before).per(watch.Seconds())

	other := connect(t, s, "billing-1a2b:4712")
	pairs(t, other, "warm", 1)
	var wg sync.WaitGroup
	var next *distlock.Lease
	var err error
	wg.Go(func() { next, err = other.Lock(t.Context(), "contended") })
	time.Sleep(time.Second)
	_, b.connsWait = s.read()
	b.connsWait -= conns
	before, _ = s.read()
	time.Sleep(watch)
	after, _ = s.read()
	// The costs of the idle holder are subtracted.
	b.wait = after.minus(before).per(watch.Seconds()).minus(b.idle)
	before, _ = s.read()
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	after, _ = s.read()
	b.handOff = after.minus(before)
	if err := next.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}
