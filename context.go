package distlock

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/distlock/distlock/driver"
)

// Context returns a context for the work under the lock. It ends with parent, and with the lease,
// with the cause [ErrLost] or [ErrReleased]. The context of a function under [Locker.Do] and the
// like ends with [ErrClosed] when [Locker.Close] begins, before the lease does. Its Err reads the
// clock at every call, for this lease and for those of the contexts that parent was made of.
// [FromContext] finds the lease in it. The lease remembers the context until it ends: if the lease
// lasts longer than the work, use a parent that ends with the work. Like the functions of package
// context, Context panics if parent is nil.
func (l *Lease) Context(parent context.Context) context.Context {
	inner, cancel := context.WithCancelCause(parent)
	if l.none() {
		cancel(ErrReleased)
		return inner
	}
	ctx := &leaseContext{inner, l, cancel}
	if why := l.q.OnEnd(ctx, cancel); why != nil {
		cancel(why)
		return ctx
	}
	context.AfterFunc(inner, func() { l.q.Forget(ctx) }) // a lease may outlive many contexts
	return ctx
}

// A leaseContext ends with its lease.
type leaseContext struct {
	context.Context
	lease *Lease
	end   context.CancelCauseFunc
}

// Err reads the clock: after a pause of the process, a timer comes too late. So may the goroutine
// that reports the loss, if it has others to notify first: the context ends here and now. The
// leases of outer contexts count as well. Their Err ends the contexts derived from them before it
// returns, but not those that [context.WithoutCancel] has cut off.
func (c *leaseContext) Err() error {
	if why := c.lease.Err(); why != nil {
		c.end(why)
	} else if outer, _ := c.Context.Value(contextKey{}).(*leaseContext); outer != nil {
		_ = outer.Err()
	}
	return c.Context.Err()
}

func (c *leaseContext) Value(key any) any {
	switch key {
	case leaseKey{}, holdKey{c.lease.r.l, c.lease.r.Key}:
		return c.lease
	case contextKey{}:
		return c
	}
	return c.Context.Value(key)
}

type leaseKey struct{}

// A contextKey finds the context of the innermost lease, and so, in its parent, that of the next
// one.
type contextKey struct{}

// A holdKey finds the lease of one key, however many others were acquired under it.
type holdKey struct {
	l   *Locker
	key string // in the store
}

// FromContext returns the lease of a context that was made by [Lease.Context], [Locker.Do] and the
// like: the innermost one, if there are several; nil if there is none. The methods of the nil
// [Lease] may be called: it holds nothing.
func FromContext(ctx context.Context) *Lease {
	if ctx == nil {
		return nil
	}
	lease, _ := ctx.Value(leaseKey{}).(*Lease)
	return lease
}

// holdings returns the leases that ctx carries and that are held, the innermost first.
func holdings(ctx context.Context) []*Lease {
	var out []*Lease
	for c, _ := ctx.Value(contextKey{}).(*leaseContext); c != nil; c, _ = c.Context.Value(contextKey{}).(*leaseContext) {
		// A lease may have made several of the contexts.
		if !slices.Contains(out, c.lease) && c.lease.Err() == nil {
			out = append(out, c.lease)
		}
	}
	return out
}

// reenters returns a DeadlockError if a call would wait for a lock that its own context holds: then
// nobody but itself could end the wait. A semaphore with enough slots next to the caller's own is
// no such case, nor is a second reader. A call that does not wait is refused by the store.
func (l *Locker) reenters(ctx context.Context, r *request) error {
	if r.Wait == 0 {
		return nil
	}
	var own []*Lease
	weight := r.Weight
	for _, lease := range holdings(ctx) {
		if lease.r.Key == r.Key && lease.r.l.shares(l) {
			own = append(own, lease)
			weight += lease.r.Weight
		}
	}
	if own == nil || weight <= r.Bound() {
		return nil
	}
	now := l.clock.Awake()
	task := Task{Holder: r.opt.holder, Waits: r.claim()}
	task.Waits.Waiting = true
	for _, lease := range own {
		c := lease.r.claim()
		c.Owner, c.Fence, c.Held, c.Left = driver.Tag(lease.q.ID().Owner), lease.q.Fence(), now-lease.q.Since(), max(0, lease.q.Hold().Left())
		task.Holds = append(task.Holds, c)
	}
	first := task.Holds[0]
	err := &DeadlockError{
		Kind: keyKind(r.Key), Name: r.name, Cycle: []Task{task},
		Err: &HeldError{Kind: keyKind(r.Key), Name: r.name, Holder: first.Holder, Held: first.Held, Left: first.Left, Fence: first.Fence},
	}
	r.emit(ctx, Event{Type: EventRefused, Took: now - r.Began, Err: err})
	return err
}

// upgrades returns an ErrUpgrade if the context of a writer's request holds the lock as a reader.
func (l *Locker) upgrades(ctx context.Context, r *request) error {
	if FromContext(ctx) == nil { // most calls come under no lease
		return nil
	}
	own, _ := ctx.Value(holdKey{l, r.Key}).(*Lease)
	if own == nil || own.r.mode != ModeShared {
		return nil
	}
	err := fmt.Errorf("%w: %s is held by the caller", ErrUpgrade, keyKind(r.Key).title(r.name))
	r.emit(ctx, Event{Type: EventRefused, Took: l.clock.Awake() - r.Began, Err: err})
	return err
}

// shares reports whether two Lockers have the same store, as far as is known.
func (l *Locker) shares(other *Locker) bool {
	return l == other || reflect.ValueOf(l.store).Comparable() && reflect.ValueOf(other.store).Comparable() && l.store == other.store
}

// claim returns the claim of r, as people see it.
func (r *request) claim() Claim {
	c, _ := newClaim(driver.Claim{Key: r.Key, Holder: r.opt.holder, Weight: r.Weight, Limit: r.Bound()})
	return c
}
