package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
)

// call carries one call to the store and its reply back, unless a fault prevents that.
func call[T any](ctx context.Context, s *Store, v Verb, key string, f func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	if s.ctx.Err() != nil {
		return zero, ErrClosed
	}
	d := s.decide(v, callKinds)
	from := time.Now()
	fault := Fault{Kind: d.Kind, Verb: v, Key: key, From: from}
	switch d.Kind {
	case 0, CutOff, WakeLost, WakeFalse:
		fault.Kind = 0
	case Frozen:
		s.freezeFor(d.For, fault)
		fault.Kind = 0 // already reported
	case RequestLate, Repeated:
		// The fault lasts until the last copy has arrived, whether or not the caller still waits.
		fault.To = from.Add(d.there + d.For)
	}
	deliver := func(ctx context.Context) { _, _ = f(ctx) }
	out, err := func() (T, error) {
		if err := s.send(ctx, d, deliver); err != nil {
			return zero, err
		}
		var out T
		var err error
		if d.Kind == Unavailable { // a reply like others: it can be lost
			err = fmt.Errorf("chaos: %w", driver.ErrUnavailable)
		} else {
			out, err = f(ctx)
		}
		if d.Kind == Repeated {
			s.later(d.For, deliver)
		}
		if lost := s.back(ctx, d); lost != nil {
			return zero, lost
		}
		return out, err
	}()
	if fault.Kind != 0 {
		if now := time.Now(); fault.To.Before(now) {
			fault.To = now
		}
		s.report(fault)
	}
	return out, err
}

// decide returns the fault of the next call of a verb, or of the next wake-up.
func (s *Store) decide(v Verb, kinds []Kind) draw {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.calls[v]
	s.calls[v]++
	p := &s.opts.Plan
	d := p.draw(s.opts.Name, v, n, kinds, p.Calm > 0 && time.Since(s.born) >= p.Calm)
	if todo := s.next[v]; len(todo) > 0 {
		d.Action, s.next[v] = todo[0], todo[1:]
	}
	return d
}

// send carries a request to the store: nil means that it has arrived.
func (s *Store) send(ctx context.Context, d draw, deliver func(context.Context)) error {
	if err := s.thawed(ctx); err != nil {
		return err
	}
	switch d.Kind {
	case RequestLost:
		return s.silence(ctx, d.For, nil)
	case RequestLate:
		d.there += d.For
	}
	sent := time.Now()
	if err := s.sleep(ctx, d.there); err != nil {
		s.later(d.there-time.Since(sent), deliver) // the request is on its way
		return err
	}
	if cut := s.cutOff(Requests); cut != nil {
		return s.silence(ctx, s.opts.Timeout, cut.ended)
	}
	return nil
}

// back carries a reply to the caller: nil means that it has arrived.
func (s *Store) back(ctx context.Context, d draw) error {
	switch d.Kind {
	case ReplyLost:
		return s.silence(ctx, d.For, nil)
	case ReplyLate:
		d.back += d.For
	}
	if err := s.sleep(ctx, d.back); err != nil {
		return err
	}
	if cut := s.cutOff(Replies); cut != nil {
		return s.silence(ctx, s.opts.Timeout, cut.ended)
	}
	return s.thawed(ctx)
}

// later delivers a request after a while, when its caller no longer waits for the reply.
func (s *Store) later(after time.Duration, deliver func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // Close is already waiting
		return
	}
	s.late.Go(func() {
		if s.sleep(s.ctx, after) == nil && s.thawed(s.ctx) == nil && s.cutOff(Requests) == nil {
			deliver(s.ctx)
		}
	})
}

// silence waits for a reply that does not come: for d, or until ended is closed; 0 and nil: until
// ctx ends.
func (s *Store) silence(ctx context.Context, d time.Duration, ended <-chan struct{}) error {
	var timeout <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-timeout:
		return ErrNoAnswer
	case <-ended:
		return ErrNoAnswer
	case <-ctx.Done():
		return noAnswer(ctx)
	case <-s.ctx.Done():
		return ErrClosed
	}
}

// sleep waits for d. An error means that the caller has given up.
func (s *Store) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return noAnswer(ctx)
	case <-s.ctx.Done():
		return ErrClosed
	}
}

func noAnswer(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err()) }

// thawed waits until the link is not frozen.
func (s *Store) thawed(ctx context.Context) error {
	for {
		if s.ctx.Err() != nil {
			return ErrClosed
		}
		s.mu.Lock()
		frozen, left := s.frozen, time.Until(s.until)
		s.mu.Unlock()
		switch {
		case frozen != nil:
			select {
			case <-frozen.ended:
			case <-ctx.Done():
				return noAnswer(ctx)
			case <-s.ctx.Done():
				return ErrClosed
			}
		case left > 0:
			if err := s.sleep(ctx, left); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// freezeFor begins a freeze that ends by itself.
func (s *Store) freezeFor(d time.Duration, f Fault) {
	f.To = f.From.Add(d)
	s.mu.Lock()
	if s.until.Before(f.To) {
		s.until = f.To
	}
	s.mu.Unlock()
	s.report(f)
}

// cutOff returns the cut that blocks a direction, or nil.
func (s *Store) cutOff(d Direction) *spell {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirs&d == 0 {
		return nil
	}
	return s.cut
}
