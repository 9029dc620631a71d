package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/locktest"
)

// The job under test: it writes to a table, again and again, under the lock "nightly".
func nightly(ctx context.Context, locker *distlock.Locker, rows *table) error {
	return locker.Do(ctx, "nightly", func(ctx context.Context) error {
		fence := distlock.FromContext(ctx).Fence()
		for {
			if err := rows.write(fence); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

// A table refuses a write with a lower fence than it has seen.
type table struct {
	highest uint64
	rows    int
}

var errLate = errors.New("a late write was refused")

func (t *table) write(fence uint64) error {
	if fence < t.highest {
		return errLate
	}
	t.highest = fence
	t.rows++
	return nil
}

// A job has to stop when it loses its lock: here a rival steals it.
func Example() {
	ctx := context.Background()
	store := locktest.New(nil) // a test passes its t, and need not close the store
	defer store.Close()
	locker, err := distlock.New(store, distlock.TTL(time.Second))
	if err != nil {
		panic(err)
	}
	err = locker.Do(ctx, "nightly", func(ctx context.Context) error {
		store.Steal("nightly")
		<-ctx.Done() // the job under test, which would work forever
		return nil
	})
	fmt.Println(errors.Is(err, distlock.ErrLost), store.Holders("nightly"))
	// Output: true [thief]
}

func TestJob_stopsWhenItLosesItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locker := newLocker(t, store)
		ended := make(chan error, 1)
		go func() { ended <- nightly(t.Context(), locker, &table{}) }()
		time.Sleep(time.Hour) // it holds its lock and works
		synctest.Wait()

		store.Steal("nightly")
		if err := <-ended; !errors.Is(err, distlock.ErrLost) {
			t.Errorf("the job ended with %v, want ErrLost", err)
		}
	})
}

func TestJob_isSkippedWhenAnotherRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locker := newLocker(t, store)
		store.Hold("nightly", "the other machine")

		ran, err := locker.TryDo(t.Context(), "nightly", func(context.Context) error { return nil })
		if ran || err != nil {
			t.Errorf("ran: %v, %v; want to be skipped", ran, err)
		}
	})
}

func TestJob_survivesALostReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locker := newLocker(t, store)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		store.LoseReplies(1, locktest.Acquire)
		store.LoseReplies(1, locktest.Renew)
		rows := &table{}
		err := nightly(ctx, locker, rows)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, distlock.ErrLost) || rows.rows < 500 {
			t.Errorf("%v after %d rows, want to work until the minute has ended", err, rows.rows)
		}
		if n := store.Calls(locktest.Acquire); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		if held := store.Holders("nightly"); len(held) > 0 {
			t.Errorf("the lock was left to %q", held)
		}
	})
}

func TestJob_theFenceOfTheLateWriterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locker := newLocker(t, store)
		rows := &table{}
		err := locker.Do(t.Context(), "nightly", func(ctx context.Context) error {
			rival := store.Steal("nightly")
			if err := rows.write(rival.Fence()); err != nil {
				t.Errorf("the rival's write: %v", err)
			}
			// The job was paused before it could check its lease: this write is late.
			return rows.write(distlock.FromContext(ctx).Fence())
		})
		if !errors.Is(err, errLate) {
			t.Errorf("the late write gave %v, want it refused", err)
		}
	})
}

func TestJob_goesOnWhenAnotherProcessIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		a, b := newLocker(t, store), newLocker(t, store.Link())
		lost := make(chan error, 1)
		go func() { lost <- nightly(t.Context(), a, &table{}) }()
		synctest.Wait()

		store.Cut() // a is cut off, b is not
		lease, err := b.Lock(t.Context(), "nightly")
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-lost:
			if !errors.Is(err, distlock.ErrLost) {
				t.Errorf("the first ended with %v, want ErrLost", err)
			}
		default:
			t.Error("two hold the lock")
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// newLocker returns the Locker of a process. It is closed at the end of the test, before the store.
func newLocker(t *testing.T, store *locktest.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	locker, err := distlock.New(store, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close(context.Background()) }) // on a broken link it may fail
	return locker
}
