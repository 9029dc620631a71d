// Package guarantees_test shows the answers in docs/guarantees.md about faults that need real
// servers. The tests kill, stop, empty, cut off and fail over servers while lockers use them. For
// each yes, a test finds no violation. For each no, a test shows the violation. The tables are in
// internal/promise. A fence is a fencing token.
//
// A test with random faults prints its seed and its measurements. The same seed gives about the
// same schedule of faults; the timing depends on the machine.
package guarantees_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/tests/internal/faults"
)

// soon is the limit for an immediate action on a busy machine.
const soon = 10 * time.Second

var seed = flag.Uint64("seed", 1, "decides when and where faults happen")

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{
		"holder": playHolder, "waiters": playWaiters, faults.ServerRole: faults.Serve,
	})
	flag.Parse()
	// The tests mostly wait, which needs no processor.
	if err := flag.Set("test.parallel", "18"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}

// chance returns a source of random numbers for one test, and prints the seed to repeat the run.
func chance(t testing.TB) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 3))
}

// upTo returns a random duration below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}

func locker(t testing.TB, s driver.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = l.Close(ctx) // its server may be down
	})
	return l
}

// persist acquires a lock of a store that may be unavailable for a while. It fails the test after
// some time.
func persist(
	t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option,
) *distlock.Lease {
	t.Helper()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		lease, err := l.Lock(ctx, name, opts...)
		cancel()
		switch {
		case err == nil:
			return lease
		case !troubled(err), time.Since(began) > soon:
			t.Fatalf("Lock: %v after %v", err, time.Since(began))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// end releases a lease. If a broken connection loses the answer, it repeats the call.
func end(ctx context.Context, lease *distlock.Lease) error {
	err := lease.Unlock(ctx)
	for try := 1; try < 10 && troubled(err); try++ {
		err = lease.Unlock(ctx)
	}
	return err
}

// unlock releases a lease that is held.
func unlock(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	if err := end(t.Context(), lease); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

// release is unlock for a lease that may have expired in a scheduler stall.
func release(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	if err := end(t.Context(), lease); err != nil && !expired(err) {
		t.Fatalf("Unlock: %v", err)
	}
}

// extend extends a lease. If a busy server does not answer, it repeats the call until the lease is
// lost.
func extend(t testing.TB, lease *distlock.Lease, ttl time.Duration) {
	t.Helper()
	err := lease.Extend(t.Context(), ttl)
	for troubled(err) && lease.Err() == nil {
		err = lease.Extend(t.Context(), ttl)
	}
	if err != nil {
		t.Fatalf("Extend: %v", err)
	}
}

// troubled reports whether an error is about the store, and not about the lock.
func troubled(err error) bool {
	return errors.Is(err, distlock.ErrUnavailable) || errors.Is(err, distlock.ErrUnknown)
}

// lostTo reports whether an error is the loss of a lease for the given reason.
func lostTo(reason distlock.Loss, err error) bool {
	var lost *distlock.LostError
	return errors.As(err, &lost) && lost.Reason == reason
}

// expired reports whether a lease was lost because its TTL expired.
func expired(err error) bool { return lostTo(distlock.LossExpired, err) }

// eventually calls f until it returns nil. After a while it fails the test with the last error.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	for by := time.Now().Add(3 * soon); ; time.Sleep(5 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(by) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// fences checks that the fences of each name rise.
type fences struct {
	mu   sync.Mutex
	last map[string]uint64
	n    int
}

func (f *fences) rise(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]uint64{}
	}
	if was := f.last[lease.Name()]; lease.Fence() <= was {
		t.Errorf("fence %d of %s after %d", lease.Fence(), lease.Name(), was)
	}
	f.last[lease.Name()] = lease.Fence()
	f.n++
}

// count returns the number of checked fences.
func (f *fences) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// A trust checks a lease again and again, as a careful holder would.
type trust struct {
	done chan struct{}
	last time.Time // when the last check began that found the lease held
}

func watch(lease *distlock.Lease) *trust {
	w := &trust{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			at := time.Now()
			if lease.Err() != nil {
				return
			}
			w.last = at
			time.Sleep(500 * time.Microsecond)
		}
	}()
	return w
}

// lost waits until the lease is lost.
func (w *trust) lost(t testing.TB, within time.Duration) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(within):
		t.Fatalf("not notified of the loss within %v", within)
	}
}
