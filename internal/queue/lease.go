package queue

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

// A Lease is a tenure in the hands of one call, until the call ends it or it is lost. Its methods
// may be called by many goroutines at once.
type Lease struct {
	t      *tenure
	call   *Call
	fence  uint64
	since  time.Duration // the grant, on the Manager's clock
	behind int           // how many waited in the store at the grant

	// why the lease has ended; nil: it has not. Written once, under Manager.mu.
	why atomic.Pointer[error]

	// The rest is guarded by Manager.mu.
	done     chan struct{}                   // closed when the lease has ended; nil: nobody needs it yet
	contexts map[any]context.CancelCauseFunc // end with the lease
	finished chan struct{}                   // closed when state is no longer ending; nil: nobody waits for that
	answer   error                           // of End, once state is ended or unanswered
	last     limited                         // memory for the context of the first release
	state    state
	handed   bool // by another goroutine of the process
	tried    bool // a release was sent and not answered
	unused   bool // no work was done under the lease: its shortest hold does not count
	working  bool // a function works under the lease, and has not ended it: Close waits for it
	taken    bool // ReleaseAll ended the lease while a function worked under it
}

// A state is how far the end of a lease is.
type state uint8

const (
	held       state = iota
	ending           // one goroutine ends it
	unanswered       // the store did not answer the release, which may be made again
	ended            // the answer is final
)

// ID returns the claim of the lease.
func (l *Lease) ID() driver.ID { return l.t.id }

// Fence returns the fence of the lease; 0: the store has none.
func (l *Lease) Fence() uint64 { return l.fence }

// Since returns when the lease was granted, on the Manager's clock.
func (l *Lease) Since() time.Duration { return l.since }

// Hold returns the hold of the claim.
func (l *Lease) Hold() *keeper.Hold { return &l.t.hold }

// Err returns nil while the lease is held, and then why it ended: ErrReleased or the Caller's Lost.
// It looks at the clock at every call.
func (l *Lease) Err() error {
	if why := l.why.Load(); why != nil {
		return *why
	}
	if !l.t.hold.Lose() {
		return nil
	}
	if why := l.why.Load(); why != nil {
		return *why
	}
	return l.call.Caller.Lost(l.fence, l.t.hold.Cause()) // another goroutine is about to end the lease
}

// Done returns a channel that is closed when the lease has ended.
func (l *Lease) Done() <-chan struct{} {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.why.Load() != nil {
			close(l.done)
		}
	}
	return l.done
}

// OnEnd has cancel called when the lease ends, until Forget is called with the same key. If the
// lease has ended already, OnEnd returns why, and cancel is not called.
func (l *Lease) OnEnd(key any, cancel context.CancelCauseFunc) error {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	if why := l.why.Load(); why != nil {
		return *why
	}
	if l.contexts == nil {
		l.contexts = map[any]context.CancelCauseFunc{}
	}
	l.contexts[key] = cancel
	return nil
}

// Forget undoes OnEnd.
func (l *Lease) Forget(key any) {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	delete(l.contexts, key)
}

// Wanted reports whether others wait for the key, as far as is known: in this process now, in the
// store at its last answer.
func (l *Lease) Wanted() bool {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	return l.why.Load() == nil && (l.t.behind > 0 || len(l.t.k.waiters) > 0)
}

// AnyWaiter reports whether a call of this process that waits for the key matches.
func (l *Lease) AnyWaiter(match func(c *Call) bool) bool {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	return slices.ContainsFunc(l.t.k.waiters, func(w *Waiter) bool { return match(w.call) })
}

// Pin keeps the tenure from being handed off: its claim is no longer what the call wanted. If the
// lease has ended, the tenure may be in other hands, and Pin returns why.
func (l *Lease) Pin() error {
	if err := l.Err(); err != nil {
		return err
	}
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	if why := l.why.Load(); why != nil {
		return *why
	}
	l.t.pinned = true
	return nil
}

// BeginWork has Close wait, before it releases the lease, until the function that works under it
// ends the lease. It returns false, and the work must not begin, if the Manager was closed
// meanwhile.
func (l *Lease) BeginWork() bool {
	m := l.t.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	l.working = true
	m.working++
	return true
}

// Taken reports whether ReleaseAll ended the lease while a function worked under it: the function
// may have worked without the lock.
func (l *Lease) Taken() bool {
	l.t.m.mu.Lock()
	defer l.t.m.mu.Unlock()
	return l.taken
}

// endWorkLocked ends what BeginWork began.
func (l *Lease) endWorkLocked() {
	if !l.working {
		return
	}
	m := l.t.m
	l.working = false
	if m.working--; m.working == 0 && m.idle != nil {
		close(m.idle)
	}
}

// endLocked notes why the lease has ended. It returns the functions that end its contexts, to be
// called without the lock.
func (l *Lease) endLocked(why error) []context.CancelCauseFunc {
	if l.why.Load() != nil {
		return nil
	}
	if why == ErrReleased { //nolint:errorlint // this very one, so that the usual end needs no memory
		l.why.Store(&released)
	} else {
		because := why
		l.why.Store(&because)
	}
	if l.done != nil {
		close(l.done)
	}
	if len(l.contexts) == 0 {
		return nil
	}
	ends := slices.Collect(maps.Values(l.contexts))
	l.contexts = nil
	return ends
}

// released is ErrReleased where a pointer to it is needed.
var released = ErrReleased

func (l *Lease) event(ctx context.Context, e Event) {
	e.Fence = l.fence
	l.call.event(ctx, e)
}
