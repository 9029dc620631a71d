package distlock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A lockProbe fails the test when it is called while the Locker's mutex is held. Code of users,
// which the Locker calls, may use the Locker: the Err of a lease's context does.
type lockProbe struct {
	t      *testing.T
	locker atomic.Pointer[distlock.Locker]
	calls  atomic.Int64
	failed atomic.Bool // one failed check is enough: it takes seconds
}

func (o *lockProbe) check(what string) {
	o.calls.Add(1)
	if l := o.locker.Load(); l != nil && !o.failed.Load() && distlock.Locked(l) {
		o.failed.Store(true)
		o.t.Errorf("%s was called with the Locker's lock held: it would deadlock", what)
	}
}

// foreignContext is a context that a user wrote.
type foreignContext struct {
	context.Context
	*lockProbe
}

func (c foreignContext) Deadline() (time.Time, bool) {
	c.check("Deadline of a context")
	return c.Context.Deadline()
}

func (c foreignContext) Done() <-chan struct{} {
	c.check("Done of a context")
	return c.Context.Done()
}

func (c foreignContext) Err() error {
	c.check("Err of a context")
	return c.Context.Err()
}

func (c foreignContext) Value(key any) any {
	c.check("Value of a context")
	return c.Context.Value(key)
}

// foreignStore is a store that a user wrote.
type foreignStore struct {
	*mem.Store
	*lockProbe
}

func (s foreignStore) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.check("Acquire of the store")
	return s.Store.Acquire(ctx, r)
}

func (s foreignStore) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	s.check("Renew of the store")
	return s.Store.Renew(ctx, r)
}

func (s foreignStore) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	s.check("RenewAll of the store")
	return s.Store.RenewAll(ctx, rs)
}

func (s foreignStore) Release(ctx context.Context, id driver.ID) error {
	s.check("Release of the store")
	return s.Store.Release(ctx, id)
}

func (s foreignStore) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	s.check("Watch of the store")
	return s.Store.Watch(ctx, id)
}

func (s foreignStore) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	s.check("Show of the store")
	return s.Store.Show(ctx, key)
}

// No context, observer or store is called with the Locker's lock held.
func TestLocker_callsNobodyUnderItsLock(t *testing.T) {
	work := func(context.Context) error { return nil }
	for name, call := range map[string]func(ctx context.Context, l *distlock.Locker, lease *distlock.Lease){
		"Lock": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.Lock(ctx, "free") },
		"Lock, waiting": func(ctx context.Context, l *distlock.Locker, lease *distlock.Lease) {
			time.AfterFunc(time.Minute, func() { _ = lease.Unlock(ctx) })
			_, _ = l.Lock(ctx, "held")
		},
		"Lock, not granted": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) {
			_, _ = l.Lock(ctx, "held", distlock.MaxWait(time.Minute))
		},
		"TryLock":  func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.TryLock(ctx, "held") },
		"RLock":    func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.RLock(ctx, "free") },
		"TryRLock": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.TryRLock(ctx, "held") },
		"Do":       func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.Do(ctx, "free", work) },
		"TryDo":    func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _, _ = l.TryDo(ctx, "free", work) },
		"Ping":     func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.Ping(ctx) },
		"Status": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) {
			_, _ = l.Status(ctx, distlock.KindLock, "held")
		},
		"Claims": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) {
			for range l.List(ctx, distlock.KindAny, "") {
			}
		},
		"Attach": func(ctx context.Context, l *distlock.Locker, lease *distlock.Lease) {
			h, _ := lease.Detach(t.Context())
			_, _ = l.Attach(ctx, h)
		},
		"Extend": func(ctx context.Context, _ *distlock.Locker, lease *distlock.Lease) { _ = lease.Extend(ctx, time.Hour) },
		"Unlock": func(ctx context.Context, _ *distlock.Locker, lease *distlock.Lease) { _ = lease.Unlock(ctx) },
		"Context": func(ctx context.Context, _ *distlock.Locker, lease *distlock.Lease) {
			_ = lease.Context(ctx).Err()
		},
		"ReleaseAll": func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.ReleaseAll(ctx) },
		"Close":      func(ctx context.Context, l *distlock.Locker, _ *distlock.Lease) { _ = l.Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &lockProbe{t: t}
				observe := func(context.Context, distlock.Event) { o.check("an observer") }
				l, err := distlock.New(foreignStore{mem.New(), o}, distlock.Observe(observe))
				if err != nil {
					t.Fatal(err)
				}
				o.locker.Store(l)
				lease := must(t)(l.Lock(t.Context(), "held"))
				before := o.calls.Load()

				ctx, cancel := context.WithCancel(t.Context())
				call(foreignContext{ctx, o}, l, lease)
				cancel()
				call(foreignContext{ctx, o}, l, lease) // the lease has ended
				if o.calls.Load() == before {
					t.Error("nothing was called")
				}
				_ = l.Close(context.Background())
			})
		})
	}
}
