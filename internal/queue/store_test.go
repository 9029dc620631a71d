package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A lazyLimit ends as context.WithTimeout does, also if nobody has waited for it.
func TestLazyLimit(t *testing.T) {
	t.Parallel()
	type key struct{}
	why := errors.New("why")
	for name, tt := range map[string]struct {
		pass  func(leave context.CancelCauseFunc, end func())
		err   error
		cause error
	}{
		"under way": {func(context.CancelCauseFunc, func()) {}, nil, nil},
		"limit":     {func(context.CancelCauseFunc, func()) { time.Sleep(time.Second) }, context.DeadlineExceeded, context.DeadlineExceeded},
		"parent":    {func(leave context.CancelCauseFunc, _ func()) { leave(why) }, context.Canceled, why},
		"ended":     {func(_ context.CancelCauseFunc, end func()) { end() }, context.Canceled, context.Canceled},
	} {
		for _, early := range []bool{false, true} { // Done is called before
			synctest.Test(t, func(t *testing.T) {
				parent, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
				defer leave(nil)
				c := newLazyLimit(parent, time.Second)
				if d, ok := c.Deadline(); !ok || !d.Equal(time.Now().Add(time.Second)) {
					t.Errorf("%s: deadline %v, %v", name, d, ok)
				}
				if early {
					_ = c.Done()
				}
				tt.pass(leave, c.end)
				synctest.Wait()
				child, cancel := context.WithCancel(c)
				defer cancel()
				if !errors.Is(c.Err(), tt.err) || !errors.Is(child.Err(), tt.err) || !errors.Is(context.Cause(c), tt.cause) || c.Value(key{}) != "value" {
					t.Errorf("%s, waited before %v: %v, cause %v, a child %v, value %v; want %v, cause %v",
						name, early, c.Err(), context.Cause(c), child.Err(), c.Value(key{}), tt.err, tt.cause)
				}
				select {
				case <-c.Done():
					if tt.err == nil {
						t.Errorf("%s: done", name)
					}
				default:
					if tt.err != nil {
						t.Errorf("%s: not done", name)
					}
				}
				c.end()
			})
		}
	}
}

// The deadline of the parent counts if it is earlier.
func TestLazyLimit_parent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := newLazyLimit(parent, time.Minute)
		defer c.end()
		if d, _ := c.Deadline(); !d.Equal(time.Now().Add(time.Second)) {
			t.Errorf("the deadline is in %v", time.Until(d))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("%v after the deadline", c.Err())
		}
	})
}

// A limit that calls share ends a lazyLimit, and so does its parent. A store that waits for both
// makes nothing.
func TestLazyLimit_shared(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"limit": context.DeadlineExceeded, "parent": context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			parent, leave := context.WithCancel(t.Context())
			defer leave()
			limit, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c := newLazyLimit(parent, time.Minute)
			defer c.end()
			c.share(limit)
			if d, _ := c.Deadline(); !d.Equal(time.Now().Add(time.Second)) {
				t.Errorf("%s: the deadline is in %v", name, time.Until(d))
			}
			if name == "parent" {
				leave()
			}
			byParent, byLimit := c.Ends()
			select {
			case <-byParent:
			case <-byLimit:
			}
			if c.full != nil {
				t.Errorf("%s: waiting has made a context", name)
			}
			if !errors.Is(c.Err(), want) || !errors.Is(context.Cause(c), want) {
				t.Errorf("%s: %v, cause %v; want %v", name, c.Err(), context.Cause(c), want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // without a shared limit the pair is as good as Done
		c := newLazyLimit(t.Context(), time.Second)
		defer c.end()
		byParent, byLimit := c.Ends()
		select {
		case <-byParent:
		case <-byLimit:
		}
		if !errors.Is(c.Err(), context.DeadlineExceeded) {
			t.Errorf("the context ended with %v", c.Err())
		}
	})
}
