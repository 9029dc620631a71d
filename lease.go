package distlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/keeper"
)

// A Lease is a lock in the caller's hand. It lasts until Unlock or until it is lost, and is
// renewed by itself. All its methods may be called by many goroutines at once.
//
// The nil *Lease, which [FromContext] returns for a context without a lease, and the zero Lease
// hold nothing, as if they were released: Err, Unlock and Extend return ErrReleased, Done is
// closed, and Fence is 0, which every guard refuses.
//
// A lease is lost when it could not be renewed in time, when the store says that it is
// gone, or when its MaxHold is reached. The loss is told, by Done, Err and the contexts,
// before the store can grant the lock to another. But a goroutine or a whole
// process can be paused at any moment and act without having looked: only the fence, checked
// by what is acted upon, stops that.
type Lease struct {
	t      *turn
	r      *request
	fence  uint64
	since  time.Duration // the grant, on the locker's clock
	handed bool          // by another goroutine of the process
	behind int           // how many waited in the store at the grant

	// why the lease is over; nil: it is not. Written once, under the locker's lock.
	why atomic.Pointer[error]

	// The rest is guarded by the locker's lock.
	done    chan struct{} // closed when it is over; nil: nobody asked for it yet
	ends    map[*leaseContext]context.CancelCauseFunc
	leaving chan struct{} // closed when busy ends; nil: nobody waits for that
	answer  error         // of Unlock
	last    limited       // the context of the first release
	busy    bool          // an Unlock or Handle is under way
	settled bool          // the store answered: answer is final
	tried   bool          // a release was sent and not answered
	unused  bool          // nothing was done under it: its shortest hold does not count
}

// Name returns the name of the lock.
func (l *Lease) Name() string {
	if l.none() {
		return ""
	}
	return l.r.name
}

// Mode tells how the lease excludes others.
func (l *Lease) Mode() Mode {
	if l.none() {
		return ""
	}
	return l.r.mode
}

// Fence returns the number of this lease. For exclusive leases of one name it is greater than
// that of every lease before it. Send it along with every change under the lock, so that what
// is changed can refuse one that comes late. It is below 2^53, and 0 if the store has no
// fences: see RequireFence.
func (l *Lease) Fence() uint64 {
	if l.none() {
		return 0
	}
	return l.fence
}

// none reports whether there is no lease: l is nil, or the zero Lease.
func (l *Lease) none() bool { return l == nil || l.t == nil }

// String names the lease for people.
func (l *Lease) String() string {
	if l.none() {
		return "no lease"
	}
	return fmt.Sprintf("lease of %s (fence %d)", quote(l.r.name), l.fence)
}

// Format shows what String returns, whatever the verb: the owner inside is a secret.
func (l *Lease) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, l.String()) }

// Until returns when the lease is lost unless it is renewed before. It is for display; to
// decide, use Valid.
func (l *Lease) Until() time.Time {
	if l.Err() != nil {
		return time.Time{}
	}
	return time.Now().Add(l.t.hold.Left())
}

// Err returns nil while the lease is held, and then why it ended: ErrLost or ErrReleased. It looks
// at the clock at every call.
func (l *Lease) Err() error {
	if l.none() {
		return ErrReleased
	}
	if why := l.why.Load(); why != nil {
		return *why
	}
	if !l.t.hold.Lose() {
		return nil
	}
	if why := l.why.Load(); why != nil {
		return *why
	}
	// Somebody else is about to say so. The hold is over: Stop does nothing but tell why.
	now, cancel := context.WithCancel(l.t.l.running)
	cancel()
	return newLostError(l.r.name, l.fence, l.t.hold.Stop(now))
}

// Valid reports whether the lease is held and will be for d from now, even if the store cannot be
// reached. It calls nothing: [Lease.Ensure] renews the lease first if that is needed.
func (l *Lease) Valid(d time.Duration) bool { return l.Err() == nil && l.t.hold.Trusted(d) }

// Ensure sees to it that the lease is held for d from now, even if the store cannot be reached
// meanwhile: for a step that takes d and must not be done by two. If less trust is left, Ensure
// renews the lease. A lease that was waited for often needs that: it begins with a part of its
// TTL, and is renewed some milliseconds later.
//
// The error is nil if the lease is held for d. ErrInvalid says that d is longer than the TTL
// allows, and ErrMaxHold that [MaxHold] comes before. With ErrUnavailable and ErrUnknown the lease
// is still held, for what is left.
func (l *Lease) Ensure(ctx context.Context, d time.Duration) error {
	if ctx == nil {
		return errNilContext
	}
	if err := l.Err(); err != nil { //nolint:contextcheck // Err waits for nothing
		return err
	}
	hold := &l.t.hold
	if hold.Trusted(d) {
		return nil
	}
	if ttl := hold.Terms().TTL; d >= ttl-keeper.Margin(ttl) {
		return fmt.Errorf("%w: %v is longer than a TTL of %v allows", ErrInvalid, d, ttl)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// An answer later than this leaves no time for another attempt.
	call, cancel := context.WithTimeout(ctx, min(callLimit, hold.Left()/3))
	defer cancel()
	err := hold.Ensure(call, d)
	if over := l.Err(); over != nil { //nolint:contextcheck // Err waits for nothing
		return over
	}
	switch {
	case err != nil:
		return newOpError("renew", l.r.name, err)
	case hold.Trusted(d):
		return nil
	case hold.Life() > d: // what ends it sooner is not the store
		return fmt.Errorf("%w: it ends within %v", ErrMaxHold, d)
	}
	return &OpError{Op: "renew", Name: l.r.name, Err: errTooLate}
}

// mature gives a claim that began with a part of its TTL all of it.
func (l *Lease) mature(ctx context.Context) error {
	hold := &l.t.hold
	if !hold.Provisional() {
		return nil
	}
	// Nothing else renews it meanwhile: an answer later than this leaves no time for another attempt.
	call, cancel := l.t.l.call(ctx, min(callLimit, hold.Left()/3))
	defer cancel()
	return hold.Confirm(call)
}

// Wanted reports whether others wait for the lock, as far as is known: in this process now, in
// the store at the last renewal.
func (l *Lease) Wanted() bool {
	if l.none() {
		return false
	}
	l.t.l.mu.Lock()
	defer l.t.l.mu.Unlock()
	return l.why.Load() == nil && (l.t.behind > 0 || len(l.t.n.waiters) > 0)
}

// Done returns a channel that is closed when the lease is over, lost or released.
func (l *Lease) Done() <-chan struct{} {
	if l.none() {
		return ended
	}
	l.t.l.mu.Lock()
	defer l.t.l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.why.Load() != nil {
			close(l.done)
		}
	}
	return l.done
}

// Extend renews the lease now, for a TTL of d from now on. If it fails with ErrUnavailable or
// ErrUnknown, the lease is still held for what is left, and not more than d.
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
	if err := opt.check(l.t.l.features); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := l.seal(); err != nil { //nolint:contextcheck // Err waits for nothing
		return err
	}
	call, cancel := context.WithTimeout(ctx, min(callLimit, l.t.hold.Left()))
	defer cancel()
	err := l.t.hold.Extend(call, d)
	if err == nil {
		return nil
	}
	if over := l.Err(); over != nil { //nolint:contextcheck // Err waits for nothing
		return over
	}
	return newOpError("extend", l.r.name, err)
}

// seal keeps the turn from being handed on: the claim is no longer what its request says. If the lease
// is over the turn may be in other hands, which must not feel it.
func (l *Lease) seal() error {
	if err := l.Err(); err != nil {
		return err
	}
	l.t.l.mu.Lock()
	defer l.t.l.mu.Unlock()
	if why := l.why.Load(); why != nil {
		return *why
	}
	l.t.sealed = true
	return nil
}

// Unlock gives the lock back. It returns nil if the lease was held until now, and ErrLost if it was not:
// then what was done under it may have met with the work of another. Any other error says that the store
// did not answer: the lease is over, the lock may stay taken until its TTL is, and Unlock
// may be called again.
//
// Unlock goes out even if ctx is over. It is repeated if the store fails or does not answer, for at
// most 5 s, and hardly longer than the lease could be trusted. Once it was answered, calling it
// again does nothing and returns the same.
func (l *Lease) Unlock(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if l.none() {
		return ErrReleased
	}
	if mine, answer := l.depart(true, departLimit); !mine { //nolint:contextcheck // Err waits for nothing
		return answer
	}
	return l.unlock(ctx)
}

// discard is Unlock for a lease that its caller never got: nothing was done under it, so that it
// need not be held for its shortest time.
func (l *Lease) discard(ctx context.Context) error {
	mine, answer := l.depart(true, departLimit) //nolint:contextcheck // Err waits for nothing
	if !mine {
		return answer
	}
	l.unused = true
	return l.unlock(ctx)
}

// unlock passes the turn on, or gives the claim back. The caller has the lease to end.
func (l *Lease) unlock(ctx context.Context) error {
	locker := l.t.l
	locker.mu.Lock()
	passed := !l.tried && l.t.lease == l && l.t.pass()
	if passed {
		l.conclude(nil, true)
	}
	locker.mu.Unlock()
	if passed {
		l.tell(ctx, Event{Type: EventHandedOff, Took: locker.clock.Awake() - l.since})
		return nil
	}
	return l.release(ctx)
}

// release gives the claim back to the store.
func (l *Lease) release(ctx context.Context) error {
	hold, limit := &l.t.hold, l.r.limit()
	if !l.tried {
		limit = min(callLimit, max(hold.Life(), minTTL))
	}
	room := &l.last
	if l.tried {
		room = new(limited) // the first call may still be under way
	}
	call, cancel := l.t.l.lastCall(ctx, limit, room)
	defer cancel()
	err := error(nil)
	if !l.tried {
		err = hold.Stop(call) // no renewal is under way from here on
	}
	if err == nil {
		if call.Err() != nil { // the wait for a renewal of many took it all
			var more context.CancelFunc
			call, more = l.t.l.lastCall(ctx, withdrawLimit, new(limited))
			defer more()
		}
		err = l.giveBack(call)
	}
	final := true
	kind := EventReleased
	switch {
	case err == nil:
	case errors.Is(err, driver.ErrNotHeld), errors.Is(err, keeper.ErrExpired), errors.Is(err, keeper.ErrMaxHold):
		err, kind = newLostError(l.r.name, l.fence, err), EventLost
	default:
		err, final = newOpError("release", l.r.name, err), false
	}
	l.part(ctx, kind, err, final)
	return err
}

// abandon ends the lease without a word to the store, as if a release had not been answered.
func (l *Lease) abandon(ctx context.Context) error {
	if mine, answer := l.depart(true, 0); !mine { //nolint:contextcheck // Err waits for nothing
		return answer
	}
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = l.t.hold.Stop(now) // it waits for no renewal
	err := l.unanswered()
	l.part(ctx, EventReleased, err, false)
	return err
}

// unanswered is the answer of Unlock if there is none.
func (l *Lease) unanswered() error {
	return &OpError{Op: "release", Name: l.r.name, Unknown: true, Err: errNoAnswer}
}

// part ends the turn together with the lease, and tells so, unless that was told before: by the
// turn, of its loss, or by a release that was not answered.
func (l *Lease) part(ctx context.Context, kind EventType, err error, final bool) {
	locker, e := l.t.l, Event{Type: kind, Err: err}
	if kind == EventLost {
		e.Risk = l.t.hold.Risk()
	}
	locker.mu.Lock()
	told := l.tried || kind == EventLost && l.t.lease == nil
	l.tried = !final
	l.conclude(err, final)
	l.t.over()
	locker.mu.Unlock()
	if !told {
		e.Took = locker.clock.Awake() - l.since
		l.tell(ctx, e)
	}
}

// The pauses between the attempts of a release. The first ones are short: most failures are those
// of a connection that the server has closed, and the next connection is good.
const (
	releaseFirst = 5 * time.Millisecond
	releaseMost  = 250 * time.Millisecond
)

// giveBack ends the claim, and repeats that while ctx lasts if the store did not do it or did not
// answer.
//
// A claim that is gone after an attempt that failed was ended by that attempt, or lost: the store
// cannot tell which, and a majority may have ended a part of it. It counts as released: the lease
// was trusted when the caller had finished, and a loss after that is of no concern.
func (l *Lease) giveBack(ctx context.Context) error {
	unsure := l.tried
	for n := 1; ; n++ {
		err := l.endClaim(ctx)
		switch {
		case errors.Is(err, driver.ErrNotHeld) && unsure:
			return nil
		case err == nil, errors.Is(err, driver.ErrNotHeld), errors.Is(err, driver.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
			return err
		}
		unsure = unsure || newOpError("", "", err).Unknown
		pause := time.NewTimer(backoff.Pause(n, releaseFirst, releaseMost))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

// endClaim releases the claim, or leaves it to end by itself when its shortest hold has ended.
func (l *Lease) endClaim(ctx context.Context) error {
	store, id := l.t.l.store, l.t.id
	if rest := l.r.opt.atLeast - (l.t.l.clock.Awake() - l.since); rest > 0 && !l.unused {
		_, err := store.Renew(ctx, driver.Renewal{ID: id, TTL: max(rest, l.t.l.features.MinTTL)})
		return err
	}
	return store.Release(ctx, id)
}

// departLimit is how long one who wants to end a lease waits for another who does: as long as a release can take. A recording may
// take as long as the lease can be trusted.
const departLimit = callLimit + withdrawLimit

// depart makes the caller the one who ends the lease, and ends its contexts. If somebody else does or
// did, or it is lost, it waits for the answer, with some patience, and returns that; a release that was not
// answered may be made again.
func (l *Lease) depart(again bool, patience time.Duration) (mine bool, answer error) {
	why := cmp.Or(l.Err(), ErrReleased) // a loss that nobody has told of yet came before this
	locker := l.t.l
	locker.mu.Lock()
	if lost := l.why.Load(); !l.settled && lost != nil && errors.Is(*lost, ErrLost) {
		l.conclude(*lost, true)
	}
	if l.busy {
		if l.leaving == nil {
			l.leaving = make(chan struct{})
		}
		leaving := l.leaving
		locker.mu.Unlock()
		enough := time.NewTimer(patience)
		defer enough.Stop()
		select {
		case <-leaving:
		case <-enough.C:
			return false, l.unanswered()
		}
		locker.mu.Lock()
		defer locker.mu.Unlock()
		return false, l.answer
	}
	if l.settled || l.tried && !again {
		defer locker.mu.Unlock()
		return false, l.answer
	}
	l.busy = true
	ends := l.end(why)
	locker.mu.Unlock()
	for _, end := range ends { // the work is over, and is told so before another's can begin
		end(why)
	}
	return true, nil
}

// conclude says what came of ending the lease; if it is final, it is never tried again. The
// lock is held.
func (l *Lease) conclude(answer error, final bool) {
	l.settled, l.answer, l.busy = final, answer, false
	if l.leaving != nil {
		close(l.leaving)
		l.leaving = nil
	}
}

// end notes why the lease is over. It returns what ends its contexts, to be called
// without the lock, which is held here.
func (l *Lease) end(why error) []context.CancelCauseFunc {
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
	if len(l.ends) == 0 {
		return nil
	}
	ends := slices.Collect(maps.Values(l.ends))
	l.ends = nil
	return ends
}

// released is ErrReleased where a pointer to it is wanted.
var released = ErrReleased

// ended is the closed channel of a lease that there is not.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (l *Lease) tell(ctx context.Context, e Event) {
	e.Fence = l.fence
	l.r.tell(ctx, e)
}
