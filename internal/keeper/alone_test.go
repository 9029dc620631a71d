package keeper

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestHold_Alone_waits_for_Extend_and_Extend_for_it(t *testing.T) {
	inBubble(t, slow(time.Second, nil), func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl, Delay: time.Second})
		extended := make(chan error, 2)
		extend := func(d time.Duration) {
			extended <- h.Extend(s.Context(), d)
		}
		go extend(time.Hour)
		s.at(0)
		err := h.Alone(s.Context(), func(_ context.Context, ttl time.Duration) error {
			if s.now() != time.Second || ttl != time.Hour+time.Second {
				s.Errorf("called at %v with a TTL of %v", s.now(), ttl)
			}
			go extend(time.Minute)
			s.at(5 * time.Second)
			if n := len(s.made()); n != 1 || h.Left() < 59*time.Minute {
				s.Errorf("%d calls, %v left", n, h.Left())
			}
			return nil
		})
		if err := errors.Join(err, <-extended, <-extended); err != nil {
			s.Error(err)
		}
		if got := s.sent(); len(got) != 2 || got[1] != 5*time.Second {
			s.Errorf("sent at %v", got)
		}
	})
}

// Alone delays renewals, so its call may take no longer than one renewal.
func TestHold_Alone_leaves_time_for_renewals(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		s.at(9 * time.Second) // a renewal falls due at any moment
		err := h.Alone(s.Context(), func(ctx context.Context, _ time.Duration) error {
			before := len(s.made())
			<-ctx.Done()
			if n := len(s.made()); n != before {
				s.Errorf("%d renewals during the call", n-before)
			}
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || s.now() > 9*time.Second+ttl/tries {
			s.Errorf("Alone = %v at %v", err, s.now())
		}
		s.at(10 * ttl)
		if !h.Trusted(0) {
			s.Errorf("listener got %v", w.summary())
		}
	})
}

func TestHold_Alone_again_and_again_keeps_no_renewal_off(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		for s.now() < 3*ttl {
			err := h.Alone(s.Context(), func(context.Context, time.Duration) error { time.Sleep(time.Second); return nil })
			if err != nil {
				s.Fatal(err)
			}
		}
		if n := len(s.made()); !h.Trusted(0) || n < 7 || n > 12 {
			s.Errorf("%d renewals, listener got %v", n, w.summary())
		}
	})
}

func TestHold_Alone_does_not_extend_trust(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, Fixed: true})
		s.at(10 * time.Second)
		if err := h.Alone(s.Context(), func(context.Context, time.Duration) error { return nil }); err != nil {
			s.Error(err)
		}
		s.at(2 * ttl)
		if at, _ := w.end(s.T); at != trust {
			s.Errorf("lost at %v", at)
		}
	})
}

func TestHold_Stop_cuts_Alone_short(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl})
		done := make(chan error, 1)
		go func() {
			done <- h.Alone(s.Context(), func(ctx context.Context, _ time.Duration) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return ctx.Err()
			})
		}()
		s.at(time.Second)
		if err := h.Stop(s.Context()); err != nil || s.now() != 2*time.Second {
			s.Errorf("Stop = %v at %v", err, s.now())
		}
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.Errorf("Alone = %v", err)
		}
		err := h.Alone(s.Context(), func(context.Context, time.Duration) error { s.Error("called"); return nil })
		if !errors.Is(err, ErrStopped) {
			s.Errorf("Alone = %v", err)
		}
		if len(s.queue) != 0 {
			s.Errorf("%d are in the queue", len(s.queue))
		}
	})
}
