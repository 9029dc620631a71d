package kinds_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// anyStore accepts every store.
func anyStore(driver.Features) bool { return true }

// A grant is the result of a call in the background.
type grant struct {
	lease *distlock.Lease
	err   error
}

// wait starts a call in the background. It returns when the call waits or has ended.
func wait(t *testing.T, take taker, opts ...distlock.Option) <-chan grant {
	t.Helper()
	out, waiting := make(chan grant, 1), make(chan struct{})
	begun := sync.OnceFunc(func() { close(waiting) }) // steady may repeat the call
	opts = append(opts, distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventWaiting {
			begun()
		}
	}))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
		defer cancel()
		lease, err := steady(take)(ctx, "x", opts...)
		out <- grant{lease, err}
		begun()
	}()
	<-waiting
	return out
}

// granted returns the lease of a call that wait started.
func granted(t *testing.T, c <-chan grant) *distlock.Lease {
	t.Helper()
	select {
	case g := <-c:
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.lease
	case <-time.After(soon):
		t.Fatalf("not granted within %v", soon)
	}
	return nil
}

// unlock releases leases. It repeats an unanswered call.
func unlock[L interface{ Unlock(context.Context) error }](t *testing.T, leases ...L) {
	t.Helper()
	for _, lease := range leases {
		err := lease.Unlock(context.Background())
		for began := time.Now(); slow(err) && time.Since(began) < 2*soon; {
			time.Sleep(20 * time.Millisecond)
			err = lease.Unlock(context.Background())
		}
		if err != nil {
			t.Errorf("Unlock: %v", err)
		}
	}
}

// A writer becomes a reader. Waiting readers get the lock, and no writer does.
func TestLease_Downgrade(t *testing.T) {
	t.Parallel()
	onEach(t, anyStore, func(t *testing.T, url string) {
		a, b := locker(t, url), locker(t, url)
		writer := take(t, a.Lock, "x")
		readers := []<-chan grant{wait(t, a.RLock), wait(t, b.RLock)}
		reader, err := writer.Downgrade(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Err(); !errors.Is(err, distlock.ErrReleased) {
			t.Errorf("the writer's lease ended with %v", err)
		}
		for _, c := range readers {
			unlock(t, granted(t, c))
		}
		if _, err := steady(b.TryLock)(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("a writer next to a reader: %v", err)
		}
		next := wait(t, b.Lock)
		unlock(t, reader)
		unlock(t, granted(t, next))
	})
}
