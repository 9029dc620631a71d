package distlock

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/distlock/distlock/internal/keeper"
	"github.com/distlock/distlock/internal/queue"
)

// A Lease is a lock that is held. It lasts until [Lease.Unlock] or until it is lost, and is renewed
// in the background. All methods may be called by many goroutines at once.
//
// The nil *Lease, which [FromContext] returns for a context without a lease, and the zero Lease
// hold nothing, as if they were released: [Lease.Err], [Lease.Unlock] and [Lease.Extend] return
// [ErrReleased], [Lease.Done] is closed, and [Lease.Fence] is 0, which every guard refuses.
//
// A lease is lost when it could not be renewed in time, when the store reports that it is gone, or
// when its [MaxHold] is reached. [Lease.Done], [Lease.Err] and the contexts report the loss before
// the store can grant the lock to another. But a goroutine or a whole process can be paused at any
// moment, and act without a look at its lease. Only the fence stops that, if the resource checks
// it.
type Lease struct {
	q *queue.Lease
	r *request
}

// Name returns the name of the lock.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.r.name
}

// Kind returns the kind of the lock.
func (l *Lease) Kind() Kind {
	if l.none() {
		return ""
	}
	return keyKind(l.r.Key)
}

// Mode returns how the lease excludes others.
func (l *Lease) Mode() Mode {
	if l.none() {
		return ""
	}
	return l.r.mode
}

// Fence returns the fencing token of this lease: a number that is greater than that of every
// earlier exclusive lease of the name and kind. Send it along with every change under the lock, so
// that the changed resource can refuse a late one. It is below 2^53, and 0 if the store has no
// fences: see [RequireFence].
func (l *Lease) Fence() uint64 {
	if l.none() {
		return 0
	}
	return l.q.Fence()
}

// none reports whether there is no lease: l is nil, or the zero Lease.
func (l *Lease) none() bool { return l == nil || l.q == nil }

// String returns a text for people.
func (l *Lease) String() string {
	if l.none() {
		return "no lease"
	}
	return fmt.Sprintf("lease of %s (fence %d)", keyKind(l.r.Key).title(l.r.name), l.Fence())
}

// Format prints what String returns, whatever the verb: the owner inside is a secret.
func (l *Lease) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// Until returns when the lease is lost unless it is renewed before; the zero Time if it has ended.
// It is for display; use [Lease.Valid] to decide.
func (l *Lease) Until() time.Time {
	if l.Err() != nil {
		return time.Time{}
	}
	return time.Now().Add(l.q.Hold().Left())
}

// Remaining returns how long the lease may be trusted unless it is renewed before; 0 if it has
// ended.
func (l *Lease) Remaining() time.Duration {
	if l.Err() != nil {
		return 0
	}
	return max(0, l.q.Hold().Left())
}

// Err returns nil while the lease is held, and then why it ended: [ErrLost] or [ErrReleased]. It
// reads the clock at every call.
func (l *Lease) Err() error {
	if l.none() {
		return ErrReleased
	}
	return l.q.Err()
}

// Valid reports whether the lease is held and will be for d from now, even if the store cannot be
// reached. It does not call the store: [Lease.Ensure] renews the lease first if that is needed.
func (l *Lease) Valid(d time.Duration) bool { return l.Err() == nil && l.q.Hold().Trusted(d) }

// Ensure makes sure that the lease is held for d from now, even if the store cannot be reached
// meanwhile. Call it before a step that takes d and must not run twice at a time. If less trust is
// left, Ensure renews the lease. A lease after a wait often needs that: it is provisional, with a
// part of its TTL, until it is renewed some milliseconds later.
//
// The error is nil if the lease is held for d, and that of [Lease.Err] if it has ended.
// [ErrInvalid] says that d is longer than the TTL allows, and [ErrMaxHold] that [MaxHold] comes
// before. With [ErrUnavailable] and [ErrUnknown] the lease is still held, for the time that is
// left.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	if ctx == nil {
		return errNilContext
	}
	if lost := l.Err(); lost != nil {
		return lost
	}
	hold := l.q.Hold()
	if hold.Trusted(d) {
		return nil
	}
	if ttl := hold.Terms().TTL; d >= ttl-keeper.Margin(ttl) {
		return invalid("duration", "%v is longer than a TTL of %v allows", d, ttl)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// An answer later than this leaves no time for another attempt.
	call, cancel := context.WithTimeout(ctx, min(queue.CallLimit, hold.Left()/3))
	defer cancel()
	err := hold.Ensure(call, d)
	if lost := l.Err(); lost != nil {
		return lost
	}
	switch {
	case err != nil:
		return l.r.failed("renew", err)
	case hold.Trusted(d):
		return nil
	case hold.Life() > d: // the store would keep it: MaxHold ends it
		return fmt.Errorf("%w: it ends within %v", ErrMaxHold, d)
	}
	return &OpError{Op: "renew", Kind: keyKind(l.r.Key), Name: l.r.name, Err: queue.ErrTooLate}
}

// Wanted reports whether others wait for the lock, as far as is known: in this process now, in
// the store at the last renewal.
func (l *Lease) Wanted() bool { return !l.none() && l.q.Wanted() }

// Done returns a channel that is closed when the lease has ended: it was lost or released.
func (l *Lease) Done() <-chan struct{} {
	if l.none() {
		return ended
	}
	return l.q.Done()
}

// Extend renews the lease now, with a TTL of d from now on. If it fails with [ErrUnavailable] or
// [ErrUnknown], the lease is still held for the time that is left, and for at most d.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if ctx == nil {
		return errNilContext
	}
	if l.none() {
		return ErrReleased
	}
	opt := l.r.opt
	if opt.ttl = d; checkTTL(d) != nil {
		return checkTTL(d)
	}
	if err := opt.check(l.r.l.features); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.q.Pin(); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, min(queue.CallLimit, l.q.Hold().Left()))
	defer cancel()
	err := l.q.Hold().Extend(call, d)
	if err == nil {
		return nil
	}
	if lost := l.Err(); lost != nil {
		return lost
	}
	return l.r.failed("extend", err)
}

// Unlock releases the lock. It returns nil if the lease was held until now, and [ErrLost] if it was
// not: then the work under the lease may have overlapped with that of another holder. Any other
// error says that the store did not answer: the lease has ended, the lock may stay held until its
// TTL has passed, and Unlock may be called again.
//
// Unlock calls the store even if ctx has ended. It repeats the call if the store fails or does not
// answer, for at most 5 s, and hardly longer than the lease could be trusted. Once the store has
// answered, another Unlock does nothing and returns the same. After [Lease.Detach] and
// [Lease.Downgrade] it does nothing.
func (l *Lease) Unlock(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.none() {
		return ErrReleased
	}
	return l.q.End(ctx)
}

// ended is the closed channel of a lease that holds nothing.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
