package main

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	keys "github.com/distlock/distlock/internal/names"
)

// grants returns the time of a grant while n Lockers wait for one name, and each unlocks at once.
func grants(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error) {
	var all []time.Duration
	for began := time.Now(); len(all) == 0 || time.Since(began) < b.each; {
		d, err := grantAll(ctx, s, fmt.Sprint("queue-", len(all)), n)
		if err != nil {
			return 0, err
		}
		all = append(all, d)
	}
	return median(all, func(d time.Duration) time.Duration { return d }), nil
}

func grantAll(ctx context.Context, s driver.Store, name string, n int) (time.Duration, error) {
	lockers := make([]*distlock.Locker, n+1)
	for i := range lockers {
		var err error
		if lockers[i], err = distlock.New(s); err != nil {
			return 0, err
		}
	}
	defer closeAll(lockers)
	lease, err := lockers[n].Lock(ctx, name)
	if err != nil {
		return 0, err
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, l := range lockers[:n] {
		wg.Go(func() {
			lease, err := l.Lock(ctx, name)
			if err == nil {
				err = lease.Unlock(ctx)
			}
			errs[i] = err
		})
	}
	err = queued(ctx, lockers[n], name, n)
	began := time.Now()
	err = errors.Join(err, lease.Unlock(ctx))
	wg.Wait()
	took := time.Since(began)
	return took / time.Duration(n), errors.Join(err, errors.Join(errs...))
}

// queued waits until n calls are in the queue of a name.
func queued(ctx context.Context, l *distlock.Locker, name string, n int) error {
	for {
		st, err := l.Status(ctx, distlock.KindLock, name)
		if err != nil || len(st.Waiters) == n {
			return err
		}
		select {
		case <-time.After(5*time.Millisecond + time.Duration(n)*20*time.Microsecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// closeAll closes Lockers in parallel. Those that clean up for long are left: their store is
// closed next.
func closeAll(lockers []*distlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range lockers {
		wg.Go(func() { _ = l.Close(ctx) })
	}
	wg.Wait()
}

// nextToLeases returns the time of Lock and Unlock while n other names are held.
func nextToLeases(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error) {
	if _, err := claimMany(ctx, s, n, driver.Whole, driver.Whole, heldName); err != nil {
		return 0, err
	}
	return b.repeat(ctx, s, func(l *distlock.Locker) (*distlock.Lease, error) { return l.Lock(ctx, "name") })
}

func heldName(i int) string { return fmt.Sprintf("held/%05d", i) }

// renewalBatch is how many claims one call renews, as in a Locker.
const renewalBatch = 500

// renewalOfAll returns the time of a renewal, as the n-th part of the renewal of n claims.
func renewalOfAll(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error) {
	rs, err := claimMany(ctx, s, n, driver.Whole, driver.Whole, heldName)
	if err != nil {
		return 0, err
	}
	var spans histogram
	for began := time.Now(); spans.total == 0 || time.Since(began) < b.each; {
		start := time.Now()
		for some := range slices.Chunk(rs, renewalBatch) {
			for _, r := range driver.RenewAll(ctx, s, some) {
				if r.Err != nil {
					return 0, r.Err
				}
			}
		}
		spans.add(time.Since(start))
	}
	return spans.p50() / time.Duration(n), nil
}

// amongNames returns the time of Lock and Unlock of one of n names that were used before.
func amongNames(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error) {
	rs, err := claimMany(ctx, s, n, driver.Whole, driver.Whole, heldName)
	if err != nil {
		return 0, err
	}
	errs := make([]error, contenders)
	var wg sync.WaitGroup
	for w := range contenders {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += contenders {
				errs[w] = s.Release(ctx, rs[i].ID)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return b.repeat(ctx, s, func(l *distlock.Locker) (*distlock.Lease, error) { return l.Lock(ctx, heldName(mathrand.N(n))) })
}

// lastPermit returns the time of Acquire and Unlock of the last of n permits.
func lastPermit(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error) {
	key := func(int) string { return keys.Semaphore.Key("name") }
	if _, err := claimMany(ctx, s, n-1, 1, int64(n), key); err != nil {
		return 0, err
	}
	return b.repeat(ctx, s, func(l *distlock.Locker) (*distlock.Lease, error) {
		sem, err := l.Semaphore(int64(n))
		if err != nil {
			return nil, err
		}
		return sem.TryAcquire(ctx, "name")
	})
}

// oneMoreReader returns the time of RLock and Unlock while n others hold the name as readers.
func oneMoreReader(ctx context.Context, b *bench, s driver.Store, n int) (time.Duration, error) {
	key := func(int) string { return keys.Lock.Key("name") }
	if _, err := claimMany(ctx, s, n, 1, driver.Whole, key); err != nil {
		return 0, err
	}
	return b.repeat(ctx, s, func(l *distlock.Locker) (*distlock.Lease, error) { return l.TryRLock(ctx, "name") })
}

// repeat acquires and unlocks for the time of a round, after a tenth of it as a warm-up, and
// returns the median.
func (b *bench) repeat(ctx context.Context, s driver.Store, acquire func(*distlock.Locker) (*distlock.Lease, error)) (time.Duration, error) {
	l, err := distlock.New(s)
	if err != nil {
		return 0, err
	}
	defer closeAll([]*distlock.Locker{l})
	var spans histogram
	for began := time.Now(); spans.total == 0 || time.Since(began) < b.each; {
		start := time.Now()
		lease, err := acquire(l)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		if err != nil {
			return 0, err
		}
		if start.Sub(began) >= b.each/10 {
			spans.add(time.Since(start))
		}
	}
	return spans.p50(), nil
}
