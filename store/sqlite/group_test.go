package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

func openGroup(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "locks.db"), &Options{Full: true, Polling: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// together runs calls that wait at the gate at the same time, in order.
func together(t *testing.T, s *Store, calls ...func() error) []error {
	t.Helper()
	if err := s.gate.enter(t.Context(), time.Time{}, true); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(calls))
	var done sync.WaitGroup
	for i, f := range calls {
		done.Go(func() { errs[i] = f() })
		for s.Queued() <= i {
			time.Sleep(time.Millisecond)
		}
	}
	s.gate.leave()
	done.Wait()
	return errs
}

func acquire(s *Store, key string, floor uint64) func() error {
	return func() error {
		res, err := s.Acquire(context.Background(), driver.Request{
			ID: driver.ID{Key: key, Owner: "owner"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, Floor: floor,
		})
		if err == nil && !res.Granted {
			return errors.New("refused")
		}
		return err
	}
}

// Calls that wait at the same time share a transaction. Their TTLs count from the call on, and not
// from the begin of the transaction.
func TestStore_group(t *testing.T) {
	s := openGroup(t)
	var shared []*tx // all calls of a transaction have the same
	var times []time.Duration
	calls := make([]func() error, groupLimit)
	for i := range calls {
		calls[i] = func() error {
			return s.write(t.Context(), call{limit: busyLimit, joins: true}, func(x *tx) error {
				shared, times = append(shared, x), append(times, x.now)
				return nil
			})
		}
	}
	for i, err := range together(t, s, calls...) {
		if err != nil || shared[i] != shared[0] {
			t.Errorf("call %d: %v, the same transaction: %v", i, err, shared[i] == shared[0])
		}
		if i > 0 && times[i] <= times[i-1] {
			t.Errorf("call %d has the time of the one before", i)
		}
	}
}

// A call that fails undoes nothing of the calls that it shared a transaction with.
func TestStore_group_failure(t *testing.T) {
	s := openGroup(t)
	var calls []func() error
	for i := range 6 {
		calls = append(calls, acquire(s, fmt.Sprint("key", i), 0))
	}
	calls[3] = acquire(s, "key3", driver.MaxFence/2) // far ahead of the clock
	errs := together(t, s, calls...)
	for i, err := range errs {
		if want := i == 3; errors.Is(err, driver.ErrInvalid) != want || !want && err != nil {
			t.Errorf("call %d: %v", i, err)
		}
		claims, err := s.Show(t.Context(), fmt.Sprint("key", i))
		if held := len(claims) == 1; err != nil || held == (i == 3) {
			t.Errorf("key %d: %v, %v", i, claims, err)
		}
	}
}

// A release of what nobody holds is an answer, and the others go on.
func TestStore_group_not_held(t *testing.T) {
	s := openGroup(t)
	id := driver.ID{Key: "key", Owner: "owner"}
	release := func() error { return s.Release(context.Background(), id) }
	if err := acquire(s, "key", 0)(); err != nil {
		t.Fatal(err)
	}
	// Releases go before the acquire.
	errs := together(t, s, acquire(s, "other", 0), release, release)
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], driver.ErrNotHeld) {
		t.Errorf("got %v", errs)
	}
}

// If the commit fails, so do all calls: an answer of one may come from the change of another.
func TestStore_group_commit(t *testing.T) {
	s := openGroup(t)
	id := driver.ID{Key: "key", Owner: "owner"}
	release := func() error { return s.Release(context.Background(), id) }
	if err := acquire(s, "key", 0)(); err != nil {
		t.Fatal(err)
	}
	broken := func() error { // the transaction ends before its commit
		return s.write(t.Context(), call{limit: busyLimit, first: true, joins: true}, func(x *tx) error {
			_, err := x.base.rollback.exec()
			return err
		})
	}
	for i, err := range together(t, s, release, release, broken) {
		if err == nil || errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if claims, err := s.Show(t.Context(), "key"); err != nil || len(claims) != 1 {
		t.Errorf("%v, %v", claims, err)
	}
}

// A caller that leaves while another call runs its own has the outcome.
func TestStore_group_leaves(t *testing.T) {
	s := openGroup(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := func() error { return acquire(s, "first", 0)() }
	second := func() error {
		return s.write(ctx, call{limit: busyLimit, joins: true}, func(*tx) error {
			cancel()
			time.Sleep(10 * time.Millisecond)
			return nil
		})
	}
	for i, err := range together(t, s, first, second) {
		if err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// A grant whose commit failed is not pushed.
func TestStore_pushed_fails(t *testing.T) {
	s := openGroup(t)
	if err := acquire(s, "key", 0)(); err != nil {
		t.Fatal(err)
	}
	r := driver.Request{
		ID: driver.ID{Key: "key", Owner: "waiter"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, QueueTTL: time.Minute,
	}
	wake := s.Watch(t.Context(), r.ID)
	if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted {
		t.Fatal(res, err)
	}
	release := func() error { return s.Release(context.Background(), driver.ID{Key: "key", Owner: "owner"}) }
	broken := func() error { // the transaction ends before its commit
		return s.write(t.Context(), call{limit: busyLimit, first: true, joins: true}, func(x *tx) error {
			_, err := x.base.rollback.exec()
			return err
		})
	}
	if errs := together(t, s, release, broken); errs[0] == nil || errs[1] == nil {
		t.Errorf("got %v", errs)
	}
	select {
	case w := <-wake:
		t.Errorf("got %+v", w)
	default:
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if w := <-wake; !w.Granted {
		t.Errorf("after a release: %+v", w)
	}
}
