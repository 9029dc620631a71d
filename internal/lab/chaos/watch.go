package chaos

import (
	"context"
	"time"

	"github.com/distlock/distlock/driver"
)

// Watch forwards wake-ups, except those that are lost. On a link that is frozen, or whose requests
// are cut, it returns nil, like a store that cannot watch at the moment.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if !s.open() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	in := driver.Watch(ctx, s.inner, id)

	s.mu.Lock()
	defer s.mu.Unlock()
	if in == nil || s.closed {
		cancel()
		return nil
	}
	out := make(chan driver.Wake, 1)
	stop := context.AfterFunc(s.ctx, cancel)
	s.late.Go(func() {
		defer cancel()
		defer stop()
		s.relay(ctx, id.Key, in, out)
	})
	return out
}

// open reports whether a request would arrive at once.
func (s *Store) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.frozen == nil && time.Until(s.until) <= 0 && s.dirs&Requests == 0
}

// begins counts the draws of false wake-ups at the beginning of a watch, separately from the draws
// at its wake-ups.
const begins Verb = "watch begins"

// relay forwards wake-ups from one channel to the other until ctx ends.
func (s *Store) relay(ctx context.Context, key string, in <-chan driver.Wake, out chan<- driver.Wake) {
	var untrue <-chan time.Time // ready when a false wake-up is due
	if d := s.decide(begins, []Kind{WakeFalse}); d.Kind == WakeFalse {
		untrue = time.After(d.For)
	}
	for {
		var met Kind
		var news driver.Wake
		select {
		case <-ctx.Done():
			return
		case <-untrue:
			met, untrue = WakeFalse, nil
		case news = <-in:
			d := s.decide(Watch, wakeKinds)
			if s.sleep(ctx, d.back) != nil {
				return
			}
			if met = d.Kind; met == WakeFalse { // in addition to the true one, and later
				met, untrue = 0, time.After(d.For)
			}
		}
		if s.thawed(ctx) != nil {
			return
		}
		if met != 0 {
			now := time.Now()
			s.report(Fault{Kind: met, Verb: Watch, Key: key, From: now, To: now})
		}
		if met != WakeLost && s.cutOff(Wakes) == nil {
			wake(out, news)
		}
	}
}

func wake(out chan<- driver.Wake, news driver.Wake) {
	select {
	case out <- news:
	default: // already ready
	}
}
