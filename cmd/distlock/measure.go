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

// benchTTL is the TTL of the locks. It is short, so that the locks of an interrupted measurement
// soon expire.
const benchTTL = 10 * time.Second

// A measure acquires locks and measures the time that they take.
type measure struct {
	store   driver.Store
	far     driver.Store // the same store, with connections of its own
	prefix  string
	clients int
	ttl     time.Duration
}

func (m *measure) locker(s driver.Store) (*distlock.Locker, error) {
	return distlock.New(s, distlock.TTL(cmp.Or(m.ttl, benchTTL)), distlock.Holder("distlock bench"))
}

// roundTrips measures the cheapest call that needs the server: the release of a lock that nobody
// holds. A store whose claims end with the process knows its claims and answers that without the
// server. For such a store roundTrips measures an attempt that is refused. Neither call changes
// anything.
func (m *measure) roundTrips(ctx context.Context, until time.Time, found *benchResult) error {
	if !m.store.Features().Detached {
		return m.refusals(ctx, until, found)
	}
	found.Trip = "the release of a lock that nobody holds"
	return found.RoundTrip.take(until, func() (time.Duration, error) {
		id := driver.ID{Key: m.prefix + "nobody", Owner: rand.Text()}
		began := time.Now()
		err := m.store.Release(ctx, id)
		took := time.Since(began)
		if !errors.Is(err, driver.ErrNotHeld) {
			return 0, fmt.Errorf("%s: %w", found.Trip, cmp.Or(err, errors.New("it succeeded")))
		}
		return took, nil
	})
}

func (m *measure) refusals(ctx context.Context, until time.Time, found *benchResult) error {
	l, err := m.locker(m.far)
	if err != nil {
		return err
	}
	defer closeLocker(ctx, l)
	held, err := l.Lock(ctx, m.prefix+"taken")
	if err != nil {
		return err
	}
	found.Trip = "an attempt to acquire a lock that is held"
	err = found.RoundTrip.take(until, func() (time.Duration, error) {
		r := driver.Request{
			ID: driver.ID{Key: m.prefix + "taken", Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole,
			TTL: cmp.Or(m.ttl, benchTTL), Holder: "distlock bench",
		}
		began := time.Now()
		res, err := m.store.Acquire(ctx, r)
		took := time.Since(began)
		if err == nil && res.Granted {
			err = errors.Join(errors.New("the store granted a lock that was held"), m.store.Release(ctx, r.ID))
		}
		return took, err
	})
	return errors.Join(err, held.Unlock(ctx))
}

// pairs measures pairs of lock and unlock of a free name, one after the other.
func (m *measure) pairs(ctx context.Context, until time.Time, found *benchResult) error {
	l, err := m.locker(m.store)
	if err != nil {
		return err
	}
	defer closeLocker(ctx, l)
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

// closeLocker closes a locker whose locks are already released.
func closeLocker(ctx context.Context, l *distlock.Locker) { _ = l.Close(ctx) }

// rate counts the pairs of many clients in one process, each with a name of its own.
func (m *measure) rate(ctx context.Context, until time.Time, found *benchResult) error {
	l, err := m.locker(m.store)
	if err != nil {
		return err
	}
	defer closeLocker(ctx, l)
	found.Rate, err = m.count(ctx, until,
		func(int) *distlock.Locker { return l },
		func(i int) string { return fmt.Sprint(m.prefix, "own/", i) })
	return err
}

// contended counts the pairs of many clients that contend for one name. Each client has a
// [distlock.Locker] of its own, as if it were a process.
func (m *measure) contended(ctx context.Context, until time.Time, found *benchResult) error {
	lockers := make([]*distlock.Locker, m.clients)
	for i := range lockers {
		l, err := m.locker(m.store)
		if err != nil {
			return err
		}
		defer closeLocker(ctx, l)
		lockers[i] = l
	}
	var err error
	found.Contended, err = m.count(ctx, until,
		func(i int) *distlock.Locker { return lockers[i] },
		func(int) string { return m.prefix + "wanted" })
	return err
}

// count lets clients lock and unlock until a time, and at least once: the rate is not 0 because the
// disk stalled for a moment. Then it cancels the calls that wait.
func (m *measure) count(
	ctx context.Context, until time.Time, locker func(int) *distlock.Locker, name func(int) string,
) (throughput, error) {
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
				if err := pair(ctx, locker(i), name(i)); ctx.Err() == nil { // a cancelled pair does not count
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

// wakes measures the time from the holder's call of Unlock to the grant of the waiter.
func (m *measure) wakes(ctx context.Context, until time.Time, found *benchResult) error {
	near, err := m.locker(m.store)
	if err != nil {
		return err
	}
	defer closeLocker(ctx, near)
	far, err := m.locker(m.far)
	if err != nil {
		return err
	}
	defer closeLocker(ctx, far)
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
		// The waiter needs a moment to enter the queue and to subscribe to notifications.
		time.Sleep(5 * time.Millisecond)
	case <-granted: // Lock failed
	}
	began := time.Now()
	first := held.Unlock(ctx)
	<-granted
	if err != nil {
		return 0, errors.Join(first, err)
	}
	return at.Sub(began), errors.Join(first, lease.Unlock(ctx))
}

// times are the durations of many calls.
type times []time.Duration

// A latency summarizes times.
type latency struct {
	Count               int
	P50, P90, P99, Most time.Duration
	RoundTrips          float64 // P50, in round trips; 0: not computed
	Buckets             []bucket
}

// take calls do until a time, and at least once, and summarizes the durations that do returns.
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
	return latency{
		Count: len(all), P50: at(.5), P90: at(.9), P99: at(.99), Most: all[len(all)-1], Buckets: buckets(all),
	}
}

// A throughput is the number of pairs of several clients.
type throughput struct {
	Count     int
	PerSecond float64
	Fairness  float64 // Jain's index of the shares: 1 if they are equal, 1/n if one client did all
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
