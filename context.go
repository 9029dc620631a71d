package distlock

import "context"

// Context returns a context for the work under the lock. It ends with parent, and with the lease,
// with the cause [ErrLost] or [ErrReleased]. Its Err reads the clock at every call, for this lease
// and for those of the contexts that parent was made of.
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
