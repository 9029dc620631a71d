package remote

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// minTrips is how many messages to a nearby server may be under way before calls are held back
	// to be sent together. maxTrips and tripSpacing are for a distant one: as many as begin within
	// a round trip if they are that far apart, so that a call is held back for a small part of its
	// time.
	minTrips    = 4
	maxTrips    = maxConns / 2
	tripSpacing = 500 * time.Microsecond

	// maxHeld is how long a call is held back at most. Those before it may be slow, because of keys
	// that are not its own.
	maxHeld = 5 * time.Millisecond

	// settleLimit is how long a release waits for an attempt whose caller has left.
	settleLimit = time.Second
)

// A batcher makes calls of one kind. While few are under way, each is sent by its own goroutine.
// Otherwise it is held back until one of them ends, and sent together with all that came meanwhile:
// to send a message, and to receive one, costs several times as much as the rest of a call.
type batcher[Q, A any] struct {
	one  func(context.Context, Q) (A, error)
	all  func(context.Context, []Q) ([]A, []error) // nil: the server has no such call
	size func(Q) int                               // in bytes
	most int                                       // how many calls all takes

	mu     sync.Mutex
	trips  int           // messages under way
	queue  []*held[Q, A] // held back
	left   []*held[Q, A] // under way together, without their callers
	rtt    time.Duration // time of a call that was sent alone
	timer  *time.Timer   // runs while calls are held back
	closed bool
	flying sync.WaitGroup // messages of several calls, until closed
}

// A held is a call that is held back, or was.
type held[Q, A any] struct {
	ctx   context.Context
	q     Q
	a     A
	err   error
	began time.Time
	trip  *trip // nil: it was not sent
	done  chan struct{}
}

// A trip is calls that are sent together.
type trip struct {
	callers int // that wait for an answer
	cancel  context.CancelFunc
}

// do makes a call.
func (b *batcher[Q, A]) do(ctx context.Context, q Q) (A, error) {
	if b.all == nil {
		return b.one(ctx, q)
	}
	b.mu.Lock()
	if len(b.queue) == 0 && b.trips < b.limit() {
		b.trips++
		b.mu.Unlock()
		return b.alone(ctx, q)
	}
	h := &held[Q, A]{ctx: ctx, q: q, began: time.Now(), done: make(chan struct{})}
	if b.queue = append(b.queue, h); len(b.queue) == 1 {
		b.remind()
	}
	b.mu.Unlock()
	select {
	case <-h.done:
		return h.a, h.err
	case <-ctx.Done():
	}
	b.leave(h)
	var none A
	return none, ctx.Err()
}

// alone makes a call that is sent by itself.
func (b *batcher[Q, A]) alone(ctx context.Context, q Q) (A, error) {
	began := time.Now()
	a, err := b.one(ctx, q)
	took := time.Since(began)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
	case took < b.rtt, b.rtt == 0:
		b.rtt = took
	default:
		b.rtt += (took - b.rtt) / 64
	}
	b.ended()
	return a, err
}

// leave notes that the caller of a call has left. If the call was sent, its outcome is unknown.
func (b *batcher[Q, A]) leave(h *held[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	is := func(o *held[Q, A]) bool { return o == h }
	if h.trip == nil {
		b.queue = slices.DeleteFunc(b.queue, is)
		return
	}
	b.left = append(b.left, h)
	if h.trip.callers--; h.trip.callers == 0 {
		h.trip.cancel()
	}
}

// settle waits for calls whose callers have left: the next call undoes them, and must not overtake
// them.
func (b *batcher[Q, A]) settle(ctx context.Context, undoes func(Q) bool) {
	var wait []*held[Q, A]
	b.mu.Lock()
	for _, h := range b.left {
		if undoes(h.q) {
			wait = append(wait, h)
		}
	}
	b.mu.Unlock()
	if wait == nil {
		return
	}
	limit := time.NewTimer(settleLimit)
	defer limit.Stop()
	for _, h := range wait {
		select {
		case <-h.done:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// fly makes calls together.
func (b *batcher[Q, A]) fly(ctx context.Context, t *trip, batch []*held[Q, A]) {
	defer t.cancel()
	if len(batch) == 1 {
		batch[0].a, batch[0].err = b.one(ctx, batch[0].q)
	} else {
		qs := make([]Q, len(batch))
		for i, h := range batch {
			qs[i] = h.q
		}
		as, errs := b.all(ctx, qs)
		for i, h := range batch {
			h.a, h.err = as[i], errs[i]
		}
	}
	for _, h := range batch {
		close(h.done)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = slices.DeleteFunc(b.left, func(h *held[Q, A]) bool { return h.trip == t })
	b.ended()
}

// close waits for messages that are under way. Their connections are closed.
func (b *batcher[Q, A]) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.flying.Wait()
}

// The methods below are called with mu held.

// limit returns how many messages may be under way.
func (b *batcher[Q, A]) limit() int { return min(max(minTrips, int(b.rtt/tripSpacing)), maxTrips) }

// ended notes the end of a message, and sends the calls that were held back.
func (b *batcher[Q, A]) ended() {
	if b.trips--; len(b.queue) > 0 && b.trips < b.limit() {
		b.send()
	}
}

// send sends calls that were held back.
func (b *batcher[Q, A]) send() {
	n, bytes := 1, b.size(b.queue[0].q)
	for ; n < len(b.queue) && n < b.most; n++ {
		if bytes += b.size(b.queue[n].q); bytes > maxBytes {
			break
		}
	}
	batch := b.queue[:n:n]
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
		b.timer.Stop()
	} else {
		b.remind()
	}
	ctx, cancel := latest(batch)
	t := &trip{len(batch), cancel}
	for _, h := range batch {
		h.trip = t
	}
	b.trips++
	if b.closed { // a caller has not noticed it yet
		go b.fly(ctx, t, batch)
		return
	}
	b.flying.Go(func() { b.fly(ctx, t, batch) })
}

// remind sends the calls that are held back after a while, whatever is under way.
func (b *batcher[Q, A]) remind() {
	d := maxHeld - time.Since(b.queue[0].began)
	if b.timer != nil {
		b.timer.Reset(d)
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.queue) > 0 && time.Since(b.queue[0].began) >= maxHeld {
			b.send()
		}
	})
}

// latest returns a ctx that ends with the last one of some calls: that of one caller does not end
// the calls of others.
func latest[Q, A any](batch []*held[Q, A]) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(batch[0].ctx)
	var last time.Time
	for _, h := range batch {
		end, ok := h.ctx.Deadline()
		if !ok {
			return context.WithCancel(ctx)
		}
		if end.After(last) {
			last = end
		}
	}
	return context.WithDeadline(ctx, last)
}
