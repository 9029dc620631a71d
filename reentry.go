package distlock

import (
	"context"
	"reflect"
	"slices"

	"github.com/distlock/distlock/driver"
)

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

// shares reports whether two Lockers have the same store, as far as is known.
func (l *Locker) shares(other *Locker) bool {
	return l == other || reflect.ValueOf(l.store).Comparable() && reflect.ValueOf(other.store).Comparable() && l.store == other.store
}

// claim returns the claim of r, as people see it.
func (r *request) claim() Claim {
	c, _ := newClaim(driver.Claim{Key: r.Key, Holder: r.opt.holder, Weight: r.Weight, Limit: r.Bound()})
	return c
}
