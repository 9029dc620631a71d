package distlock

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/internal/queue"
)

// ErrStepDown is the cause of the end of a term: a preferred candidate waits.
var ErrStepDown = errors.New("distlock: leader steps down")

// preferKey marks the queue entry of a preferred candidate.
const preferKey = "_preferred"

// An Election is a leader election: of the candidates for a name, one leads at a time. It cannot
// stop a leader that was paused and acts when another leads already. Send [Term.Fence], a fencing
// token, along with every change that the leader makes, and let the changed resource refuse a lower
// one.
type Election struct {
	l    *Locker
	opts []Option
}

// Election returns an election for each name. The options are the defaults of its candidates.
// [MaxWait] and [MaxAttempts] are refused: candidates wait until they are elected. The error is
// [errors.ErrUnsupported] if the store has no fences or stores no values.
func (l *Locker) Election(opts ...Option) (*Election, error) {
	opts, err := l.kindOptions(names.Election, opts)
	switch f := l.features; {
	case err != nil:
		return nil, err
	case !f.Fence:
		return nil, unsupported(f, "gives no fences, as the terms of an Election need")
	case !f.Value:
		return nil, unsupported(f, "stores no values, as an Election needs")
	}
	return &Election{l, opts}, nil
}

// Preferred makes the candidate of an [Election] a preferred one: while it waits, a leader that is
// not preferred has to step down, and learns that within a third of its TTL.
func Preferred() Option {
	return func(o *options) error {
		o.preferred, o.given = true, o.given|givenPreferred
		return nil
	}
}

// request returns the request of a candidate.
func (e *Election) request(ctx context.Context, name string, opts []Option) (*request, error) {
	r, err := e.l.request(ctx, names.Election, name, ModeExclusive, append(e.opts, opts...))
	if err != nil {
		return nil, err
	}
	r.Weight, r.Limit, r.Wait, r.MaxAttempts = driver.Whole, driver.Whole, -1, 0
	if r.opt.preferred {
		meta := map[string]string{preferKey: "yes"}
		maps.Copy(meta, r.Meta)
		r.Meta = meta
	}
	return r, nil
}

// Run stands for election under a name again and again, and calls lead whenever it is elected,
// until ctx ends or lead returns an error.
//
// The context of lead ends with ctx, with the loss of the lease, and with [ErrStepDown] when a
// preferred candidate waits. Run releases the leadership when lead has returned, and not before. If
// lead returns nil, it resigns. An error of lead ends Run, unless the context of lead had ended.
//
// The error is [ErrNotAcquired] if and only if lead was never called.
//
// Run stands again after the shortest pause of [Backoff], so a lead that returns nil at once is
// called up to fifty times a second. To stop, end ctx or return an error of your own from lead: Run
// returns the cause of ctx, or that error. If ctx ended during a term, the error has both.
//
// Run retries when the store fails, but not if the very first call fails.
func (e *Election) Run(ctx context.Context, name string, lead func(ctx context.Context, t *Term) error, opts ...Option) error {
	if lead == nil {
		return outcome(false, errNilFunc)
	}
	led := false
	err := e.stand(ctx, name, func(ctx context.Context, t *Term) error {
		led = true
		return lead(ctx, t)
	}, opts)
	return outcome(led, err)
}

// stand stands for election again and again.
func (e *Election) stand(ctx context.Context, name string, lead func(ctx context.Context, t *Term) error, opts []Option) error {
	for failed, stood := 0, false; ; {
		r, err := e.request(ctx, name, opts)
		if err != nil {
			return err
		}
		lease, err := e.l.acquire(ctx, r)
		switch {
		case err == nil:
			failed, stood = 0, true
			err = e.runTerm(ctx, lease, lead)
			if err != nil {
				return err
			}
		case ctx.Err() != nil && !errors.Is(err, ErrUnknown):
			return context.Cause(ctx)
		case ctx.Err() != nil, !stood, !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown):
			return err
		}
		failed++ // after a term it is the first pause: others shall ask first
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backoff.Pause(failed, r.opt.first, r.opt.most)):
		}
	}
}

// runTerm runs one term. It returns nil if the candidate is to stand again.
func (e *Election) runTerm(ctx context.Context, lease *Lease, lead func(context.Context, *Term) error) (err error) {
	if !lease.q.BeginWork() {
		_ = lease.Unlock(ctx)
		return nil // the Locker was closed meanwhile
	}
	office, resign := context.WithCancelCause(ctx)
	term := lease.Context(office)
	var wg sync.WaitGroup
	defer func() {
		resign(ErrReleased)
		wg.Wait()
		_ = lease.Unlock(ctx) // observers get the error; the term has ended in any case
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		case ctx.Err() != nil:
			err = errors.Join(err, context.Cause(ctx))
		}
	}()
	// Every term is a claim of its own, and never handed off in memory: its number is the fence
	// that the store shows.
	if lease.q.Pin() != nil || e.outranked(term, lease) {
		return nil
	}
	wg.Go(func() { e.listen(term, lease, resign) })
	err = lead(term, &Term{lease})
	if term.Err() != nil && ctx.Err() == nil {
		return nil // the term had ended, so the error of lead does not end Run
	}
	return err
}

// listen ends a term when a preferred candidate waits.
func (e *Election) listen(ctx context.Context, lease *Lease, resign context.CancelCauseFunc) {
	tick := time.NewTicker(lease.r.opt.ttl / 3) // as often as the store reports whether anybody waits
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if e.outranked(ctx, lease) {
				resign(ErrStepDown)
				return
			}
		}
	}
}

// outranked reports whether a preferred candidate waits, and the leader is not one.
func (e *Election) outranked(ctx context.Context, lease *Lease) bool {
	if lease.r.opt.preferred || !e.l.features.Queue || !lease.Wanted() {
		return false
	}
	// A candidate of this process has no entry in the store, since the leader is of this process
	// too.
	if lease.q.AnyWaiter(func(c *queue.Call) bool { return c.Caller.(*caller).opt.preferred }) {
		return true
	}
	claims, err := e.l.show(ctx, names.Election, lease.r.name)
	if err != nil {
		return false // the next read may show it
	}
	return slices.ContainsFunc(claims, func(c driver.Claim) bool { return c.Waiting && c.Meta[preferKey] != "" })
}

// A Term is one period of leadership.
type Term struct{ lease *Lease }

// Fence returns the fence of the lease. It numbers the terms: it is greater than that of every
// earlier term.
func (t *Term) Fence() uint64 { return t.lease.Fence() }

// Proof returns the proof of the lease: see [Lease.Proof]. It makes a Term a lease for the guards
// of package fence.
func (t *Term) Proof() string { return t.lease.Proof() }

// Publish stores a value that others read in [Leader].Value, at most 64 KiB. It replaces the value
// of the option [Value], and is gone with the term.
func (t *Term) Publish(ctx context.Context, value []byte) error {
	if ctx == nil {
		return errNilContext
	}
	if len(value) > maxValue {
		return tooLong(value)
	}
	lease := t.lease
	if err := lease.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if value == nil {
		value = []byte{} // nil would leave it as it was
	}
	hold := lease.q.Hold()
	call, cancel := context.WithTimeout(ctx, min(queue.CallLimit, hold.Left()))
	defer cancel()
	err := hold.Alone(call, func(ctx context.Context, ttl time.Duration) error { // an Extend may be under way
		// The claim may live longer by this. Trust does not: the next renewal extends it.
		_, err := lease.r.l.store.Renew(ctx, driver.Renewal{ID: lease.q.ID(), TTL: ttl, Value: value})
		return err
	})
	switch {
	case errors.Is(err, driver.ErrNotHeld):
		_ = hold.Extend(call, hold.Terms().TTL) // it ends the lease
		return (*caller)(lease.r).Lost(lease.Fence(), err)
	case err != nil && lease.Err() != nil:
		return lease.Err()
	case err != nil:
		return lease.r.failed("publish", err)
	}
	return nil
}

// A Leader is the leader of an election, as the store knows it. The zero Leader says that nobody
// leads.
type Leader struct {
	Fence   uint64 // of the term; 0: nobody leads
	Holder  string
	Value   []byte        // the value that it published last
	Held    time.Duration // for how long it has led
	Waiters int           // how many candidates wait
}

// Leader returns the leader under a name. It may have changed by the time it is read.
func (e *Election) Leader(ctx context.Context, name string) (Leader, error) {
	claims, err := e.l.show(ctx, names.Election, name)
	var out Leader
	for _, c := range claims {
		if c.Waiting {
			out.Waiters++
		} else {
			out.Fence, out.Holder, out.Value, out.Held = c.Fence, c.Holder, c.Value, c.Held
		}
	}
	return out, err
}

// Observe yields the leader under a name, and again whenever the leader or its value changes; the
// zero [Leader] if nobody leads. It reads the store when the store notifies it that a term ended,
// and otherwise after the pauses of [Backoff]: once a second by default. It does not see what
// changed and changed back between two reads.
//
// An error says that the store does not answer. It is yielded once, and Observe continues. Observe
// ends with ctx, or after an error that is permanent.
func (e *Election) Observe(ctx context.Context, name string) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		r, err := e.request(ctx, name, nil)
		if err != nil {
			yield(Leader{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var wake <-chan driver.Wake
		var last *Leader // the last one that was yielded; nil: an error, or nothing yet
		failing := false
		for n := 1; ; n++ {
			if wake == nil {
				wake = driver.Watch(ctx, e.l.store, driver.ID{Key: r.Key}) // before the read, so that nothing falls in between
			}
			now, err := e.Leader(ctx, name)
			news := last == nil || last.Fence != now.Fence || !bytes.Equal(last.Value, now.Value)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing && !yield(Leader{}, err) || !errors.Is(err, ErrUnavailable) {
					return
				}
				failing, last = true, nil
			case news:
				if !yield(now, nil) {
					return
				}
				n, failing, last = 1, false, &now
			}
			pause := backoff.Jitter(r.opt.most)
			if err == nil && now.Fence == 0 {
				pause = backoff.Pause(n, r.opt.first, r.opt.most) // an election is under way
			}
			select {
			case <-ctx.Done():
				return
			case <-wake:
				n = 0
			case <-time.After(pause):
			}
		}
	}
}
