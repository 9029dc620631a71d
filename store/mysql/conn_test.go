package mysql_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mysql"
)

// A call ends soon after its context: while it waits for a connection, and while the server works
// on it. The next call has another connection.
func TestStore_ends_with_context(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	s, db := made(t, url, &mysql.Options{MaxConns: 1}), database(t, url)
	r := exclusive("k")
	grant(t, s, r)
	s.Swept() // a sweep has the only connection
	release(t, s, r)
	unlock := lockRow(t, db, "k")
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, exclusive("k"))
		first <- err
	}()
	waiting(t, db, 1)
	watch := testenv.NewStopwatch(t)
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	if _, err := s.Acquire(short, exclusive("other")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that waits for a connection: %v, want the error of its context", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a call that waits for the server: %v, want the error of its context: it may be done yet", err)
	}
	if took := watch.Elapsed(); took > 2*time.Second {
		t.Errorf("the calls took %v after the end of their contexts", took)
	}
	unlock() // it also locks the gap next to the row
	grant(t, s, exclusive("other"))
}

// A nosy context calls a function in its Err, as the context of a lost lease calls the
// observer.
type nosy struct {
	context.Context
	query func()
}

func (c nosy) Err() error {
	if err := c.Context.Err(); err == nil {
		return nil
	}
	c.query()
	return c.Context.Err()
}

// The context of a call uses the store in its Err, on a new connection. The
// call ends, and so do the others.
func TestStore_ends_with_any_context(t *testing.T) {
	t.Parallel()
	url := testenv.MariaDB(t, testenv.Shared()).Database(t)
	s, db := made(t, url, nil), database(t, url)
	r := exclusive("k")
	grant(t, s, r)
	s.Swept()
	release(t, s, r)
	unlock := lockRow(t, db, "k")
	defer unlock()
	inner, cancel := context.WithCancel(t.Context())
	defer cancel()
	var used atomic.Bool
	ctx := nosy{inner, func() {
		if used.CompareAndSwap(false, true) {
			var calls sync.WaitGroup
			for range 4 { // more connections than there are
				calls.Go(func() { _, _ = s.Show(t.Context(), "another") })
			}
			calls.Wait()
		}
	}}
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, exclusive("k"))
		done <- err
	}()
	waiting(t, db, 1)
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) || !used.Load() {
			t.Errorf("%v, and the context has used the store: %v", err, used.Load())
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the call does not end")
	}
}
