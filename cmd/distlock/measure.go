package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// benchTTL is that of the locks: what an interrupted measurement leaves is soon over.
const benchTTL = 10 * time.Second

// A measure takes locks and times.
type measure struct {
	store   driver.Store
	far     driver.Store // the same, by connections of its own
	prefix  string
	clients int
	ttl     time.Duration
}

func (m *measure) locker(s driver.Store) (*distlock.Locker, error) {
	return distlock.New(s, distlock.TTL(cmp.Or(m.ttl, benchTTL)), distlock.Holder("distlock bench"))
}

// roundTrips times the cheapest call that a store cannot answer by itself: a release of what nobody holds. A store whose claims
// end with the process knows them without asking; there it is asked for what another holds, which is refused. Neither
// changes anything.
func (m *measure) roundTrips(ctx context.Context, until time.Time, found *benched) error {
	if !m.store.Features().Detached {
		return m.refusals(ctx, until, found)
	}
	found.Trip = "a release of what nobody holds"
	return found.RoundTrip.take(until, func() (time.Duration, error) {
		id := driver.ID{Key: m.prefix + "nobody", Owner: rand.Text()}
		began := time.Now()
		err := m.store.Release(ctx, id)
		took := time.Since(began)
		if !errors.Is(err, driver.ErrNotHeld) {
			return 0, fmt.Errorf("a release of what nobody holds: %w", cmp.Or(err, errors.New("it was done")))
		}
		return took, nil
	})
}

func (m *measure) refusals(ctx context.Context, until time.Time, found *benched) error {
	l, err := m.locker(m.far)
	if err != nil {
		return err
	}
	defer leave(ctx, l)
	held, err := l.Lock(ctx, m.prefix+"taken")
	if err != nil {
		return err
	}
	found.Trip = "asking for what another holds"
	err = found.RoundTrip.take(until, func() (time.Duration, error) {
		r := driver.Request{
			ID: driver.ID{Key: m.prefix + "taken", Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole,
			TTL: cmp.Or(m.ttl, benchTTL), Holder: "distlock bench",
		}
		began := time.Now()
		res, err := m.store.Acquire(ctx, r)
		took := time.Since(began)
		if err == nil && res.Granted {
			err = errors.Join(errors.New("the store gave a lock away that was held"), m.store.Release(ctx, r.ID))
		}
		return took, err
	})
	return errors.Join(err, held.Unlock(ctx))
}

// pairs times the lock and unlock of a free name, one after the other.
func (m *measure) pairs(ctx context.Context, until time.Time, found *benched) error {
	l, err := m.locker(m.store)
	if err != nil {
		return err
	}
	defer leave(ctx, l)
	return found.Pair.take(until, func() (time.Duration, error) {
		began := time.Now()
		err := pair(ctx, l, m.prefix+"free")
		return time.Since(began), err
	})
}

// pair locks and unlocks.
func pair(ctx context.Context, l *distlock.Locker, name string) error {
	lease, err := l.Lock(ctx, name)
	if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

func leave(ctx context.Context, l *distlock.Locker) { _ = l.Close(ctx) } // its locks are given back already

// rate counts what many clients of one process do, each with a name of its own.
func (m *measure) rate(ctx context.Context, until time.Time, found *benched) error {
	l, err := m.locker(m.store)
	if err != nil {
		return err
	}
	defer leave(ctx, l)
	found.Rate, err = m.count(ctx, until, func(int) *distlock.Locker { return l }, func(i int) string { return fmt.Sprint(m.prefix, "own/", i) })
	return err
}

// contended counts what many clients do that want the same name, each as if it were a process.
func (m *measure) contended(ctx context.Context, until time.Time, found *benched) error {
	lockers := make([]*distlock.Locker, m.clients)
	for i := range lockers {
		l, err := m.locker(m.store)
		if err != nil {
			return err
		}
		defer leave(ctx, l)
		lockers[i] = l
	}
	var err error
	found.Contended, err = m.count(ctx, until, func(i int) *distlock.Locker { return lockers[i] }, func(int) string { return m.prefix + "wanted" })
	return err
}

// count lets clients lock and unlock until a time, and once at least: a disk that stands still for a moment is no rate of 0. Those
// that wait then are sent away.
func (m *measure) count(ctx context.Context, until time.Time, locker func(int) *distlock.Locker, name func(int) string) (throughput, error) {
	counts, errs := make([]int, m.clients), make([]error, m.clients)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once atomic.Bool
	defer time.AfterFunc(time.Until(until), func() {
		if once.Load() {
			cancel()
		}
	}).Stop()
	began := time.Now()
	var wg sync.WaitGroup
	for i := range m.clients {
		wg.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				if err := pair(ctx, locker(i), name(i)); ctx.Err() == nil { // else it does not count
					counts[i]++
					errs[i] = err
					if once.Store(true); !time.Now().Before(until) {
						cancel()
					}
				}
			}
		})
	}
	wg.Wait()
	return newThroughput(counts, time.Since(began)), errors.Join(errs...)
}

// wakes times how soon one that waits is granted after the holder began to unlock.
func (m *measure) wakes(ctx context.Context, until time.Time, found *benched) error {
	near, err := m.locker(m.store)
	if err != nil {
		return err
	}
	defer leave(ctx, near)
	far, err := m.locker(m.far)
	if err != nil {
		return err
	}
	defer leave(ctx, far)
	return found.WakeUp.take(until, func() (time.Duration, error) { return m.wake(ctx, near, far) })
}

func (m *measure) wake(ctx context.Context, near, far *distlock.Locker) (time.Duration, error) {
	held, err := near.Lock(ctx, m.prefix+"passed")
	if err != nil {
		return 0, err
	}
	waiting, granted := make(chan struct{}), make(chan struct{})
	var lease *distlock.Lease
	var at time.Time
	go func() {
		defer close(granted)
		lease, err = far.Lock(ctx, m.prefix+"passed", distlock.Observe(func(_ context.Context, e distlock.Event) {
			if e.Type == distlock.EventWaiting {
				close(waiting)
			}
		}))
		at = time.Now()
	}()
	select {
	case <-waiting:
		// It has to be in line, and deaf to nothing, before it is worth waking.
		time.Sleep(5 * time.Millisecond)
	case <-granted: // it failed
	}
	began := time.Now()
	first := held.Unlock(ctx)
	<-granted
	if err != nil {
		return 0, errors.Join(first, err)
	}
	return at.Sub(began), errors.Join(first, lease.Unlock(ctx))
}

// times are how long each of many calls took.
type times []time.Duration

// A latency sums up times.
type latency struct {
	Count               int
	P50, P90, P99, Most time.Duration
	RoundTrips          float64 // P50, in round trips; 0: not said
	Buckets             []bucket
}

// take does something again and again until a time, and at least once, and sums up how long it took.
func (l *latency) take(until time.Time, do func() (time.Duration, error)) error {
	var all times
	for len(all) == 0 || time.Now().Before(until) {
		took, err := do()
		if err != nil {
			return err
		}
		all = append(all, took)
	}
	*l = newLatency(all)
	return nil
}

func newLatency(all times) latency {
	slices.Sort(all)
	at := func(p float64) time.Duration { return all[int(math.Ceil(p*float64(len(all))))-1] }
	return latency{Count: len(all), P50: at(.5), P90: at(.9), P99: at(.99), Most: all[len(all)-1], Buckets: buckets(all)}
}

// A throughput is what several clients did.
type throughput struct {
	Count     int
	PerSecond float64
	Fairness  float64 // Jain's index of their shares: 1 is even, 1/n is one client alone
}

func newThroughput(counts []int, took time.Duration) throughput {
	var sum, squares float64
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	t := throughput{Count: int(sum), PerSecond: sum / took.Seconds()}
	if squares > 0 {
		t.Fairness = sum * sum / squares / float64(len(counts))
	}
	return t
}
