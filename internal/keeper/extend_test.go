package keeper

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
)

func TestHold_Extend_longer(t *testing.T) {
	inBubble(t, slow(2*time.Second, nil), func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, Delay: time.Second})
		s.at(5 * time.Second)
		if err := h.Extend(s.Context(), 10*time.Minute); err != nil {
			s.Fatal(err)
		}
		if got := s.made()[0].rs; len(got) != 1 || got[0].TTL != 10*time.Minute+time.Second {
			s.Errorf("sent %+v", got)
		}
		left := 10*time.Minute - 6*time.Second - 2*time.Second // minus the margin and the time until the answer
		between(s.T, "trust", h.Left(), left, left)
		if h.Terms() != (Terms{TTL: 10 * time.Minute, Delay: time.Second}) {
			s.Errorf("terms %+v", h.Terms())
		}
		if !slices.Equal(w.summary(), []string{"renewed"}) {
			s.Errorf("listener got %v", w.summary())
		}
		s.at(time.Hour)
		for i, sent := range s.sent()[1:] {
			between(s.T, "pause before a renewal", sent-s.sent()[i], 3*time.Minute, 11*time.Minute/3)
		}
	})
}

func TestHold_Extend_shorter(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, _ := s.keep(Terms{TTL: time.Hour})
		if err := h.Extend(s.Context(), 10*time.Second); err != nil {
			s.Fatal(err)
		}
		between(s.T, "trust", h.Left(), 9*time.Second, 9*time.Second)
		s.at(time.Minute)
		if !h.Trusted(0) {
			s.Error("not renewed by its new TTL")
		}
	})
}

// The store may have applied a call whose answer was lost.
func TestHold_Extend_shorter_and_unanswered(t *testing.T) {
	inBubble(t, first(silent, fine), func(s *harness) {
		h, w := s.keep(Terms{TTL: time.Hour})
		s.at(time.Minute)
		ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			between(s.T, "trust while the call is under way", h.Left(), 8*time.Second, 8*time.Second)
		}()
		if err := h.Extend(ctx, 10*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Extend = %v", err)
		}
		between(s.T, "trust", h.Left(), 7*time.Second, 7*time.Second)
		s.at(2 * time.Minute)
		if !h.Trusted(0) || h.Terms().TTL != 10*time.Second {
			s.Errorf("listener got %v: want another try while there was trust", w.summary())
		}
		if got := w.summary(); got[0] != "at risk" || got[1] != "recovered" {
			s.Errorf("listener got %v", got)
		}
		for _, c := range s.made() {
			if c.rs[0].TTL != 10*time.Second { // an old call may arrive late and shorten the claim again
				s.Errorf("a TTL of %v was requested while a shorter one may be under way", c.rs[0].TTL)
			}
		}
	})
}

func TestHold_Extend_longer_and_failed(t *testing.T) {
	inBubble(t, first(down, fine), func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		if err := h.Extend(s.Context(), time.Hour); !errors.Is(err, errDown) {
			s.Errorf("Extend = %v", err)
		}
		if h.Terms().TTL != ttl || h.Left() != trust {
			s.Errorf("terms %+v, %v left", h.Terms(), h.Left())
		}
		s.at(3 * time.Second)
		if got := w.summary(); !slices.Equal(got, []string{"at risk", "recovered"}) {
			s.Errorf("listener got %v", got)
		}
	})
}

func TestHold_Extend_of_what_is_not_held(t *testing.T) {
	inBubble(t, func(context.Context, int) error { return driver.ErrNotHeld }, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		if err := h.Extend(s.Context(), time.Hour); !errors.Is(err, driver.ErrNotHeld) {
			s.Errorf("Extend = %v", err)
		}
		if _, cause := w.end(s.T); !errors.Is(cause, driver.ErrNotHeld) {
			s.Errorf("lost by %v", cause)
		}
		if err := h.Extend(s.Context(), time.Hour); !errors.Is(err, driver.ErrNotHeld) || len(s.made()) != 1 {
			s.Errorf("Extend = %v after %d calls", err, len(s.made()))
		}
	})
}

func TestHold_Extend_fails_after_the_end(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl})
		_ = h.Stop(s.Context())
		if err := h.Extend(s.Context(), ttl); !errors.Is(err, ErrStopped) {
			s.Errorf("Extend = %v", err)
		}
		h, _ = s.keep(Terms{TTL: ttl, MaxHold: time.Second})
		s.at(2 * time.Second)
		if err := h.Extend(s.Context(), ttl); !errors.Is(err, ErrMaxHold) {
			s.Errorf("Extend = %v", err)
		}
		if len(s.made()) != 0 {
			s.Errorf("%d calls", len(s.made()))
		}
	})
}

func TestHold_Extend_keeps_a_fixed_hold_and_its_bound(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, Fixed: true, MaxHold: time.Minute})
		s.at(20 * time.Second)
		if err := h.Extend(s.Context(), time.Hour); err != nil {
			s.Error(err)
		}
		between(s.T, "trust", h.Left(), 40*time.Second, 40*time.Second)
		s.at(2 * time.Hour)
		if at, cause := w.end(s.T); at != time.Minute || !errors.Is(cause, ErrMaxHold) || len(s.made()) != 1 {
			s.Errorf("lost at %v by %v after %d calls", at, cause, len(s.made()))
		}
	})
}

// The keeper does not retry a failed Extend of a fixed hold: the caller has to call it again.
func TestHold_Extend_of_a_fixed_hold_fails(t *testing.T) {
	inBubble(t, down, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, Fixed: true})
		if err := h.Extend(s.Context(), ttl); !errors.Is(err, errDown) {
			s.Error(err)
		}
		s.at(2 * ttl)
		if at, _ := w.end(s.T); at != trust || len(s.made()) != 1 {
			s.Errorf("lost at %v after %d calls", at, len(s.made()))
		}
	})
}

// The harness fails the test if two renewals of a hold are under way.
func TestHold_Extend_waits_for_a_renewal_and_a_renewal_for_it(t *testing.T) {
	inBubble(t, slow(4*time.Second, nil), func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl})
		s.at(11 * ttl / 30)
		if s.underWay() != 1 {
			s.Fatal("no renewal is under way")
		}
		if err := h.Extend(s.Context(), ttl); err != nil {
			s.Error(err)
		}
		if got := s.sent(); len(got) != 2 || got[1] != got[0]+4*time.Second {
			s.Errorf("sent at %v", got)
		}
		s.at(100 * time.Second)
	})
	inBubble(t, slow(20*time.Second, nil), func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl})
		if err := h.Extend(s.Context(), ttl); err != nil { // a renewal falls due meanwhile
			s.Error(err)
		}
		if got := s.sent(); len(got) != 1 {
			s.Errorf("sent at %v", got)
		}
	})
}

func TestHold_Extend_waits_no_longer_than_ctx(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		h, _ := s.keep(Terms{TTL: ttl})
		s.at(11 * ttl / 30)
		why := errors.New("no more patience")
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, why)
		defer cancel()
		if err := h.Extend(ctx, ttl); !errors.Is(err, why) || len(s.made()) != 1 {
			s.Errorf("Extend = %v", err)
		}
	})
}

func TestHold_Stop_cuts_Extend_short(t *testing.T) {
	for _, end := range []func(s *harness, h *Hold) error{
		func(s *harness, h *Hold) error { return h.Stop(s.Context()) },
		func(s *harness, _ *Hold) error { s.Close(); return nil },
	} {
		inBubble(t, silent, func(s *harness) {
			h, w := s.keep(Terms{TTL: ttl})
			extended := make(chan error, 1)
			go func() { extended <- h.Extend(s.Context(), time.Hour) }()
			s.at(time.Second)
			if err := end(s, h); err != nil {
				s.Error(err)
			}
			if s.underWay() != 0 || s.now() != time.Second {
				s.Errorf("it took until %v, %d renewals are under way", s.now(), s.underWay())
			}
			if err := <-extended; !errors.Is(err, ErrStopped) {
				s.Errorf("Extend = %v", err)
			}
			s.at(2 * ttl)
			if len(w.all()) != 0 || len(s.made()) != 1 || h.Trusted(0) || len(s.queue) != 0 {
				s.Errorf("listener got %v after %d calls", w.summary(), len(s.made()))
			}
		})
	}
}

func TestHold_Extend_that_hangs_does_not_extend_trust(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		if err := h.Extend(s.Context(), time.Hour); !errors.Is(err, ErrExpired) {
			s.Errorf("Extend = %v", err)
		}
		if at, _ := w.end(s.T); at != trust || s.now() != trust || h.Trusted(0) {
			s.Errorf("lost at %v", at)
		}
	})
}

// Stop may run at any moment of Extend. A hold that has ended must not come back.
func TestHold_Stop_races_with_Extend(t *testing.T) {
	send := func(_ context.Context, rs []driver.Renewal) []driver.Renewed { return make([]driver.Renewed, len(rs)) }
	for range 20 {
		k := New(NewClock(), send)
		var wg sync.WaitGroup
		for range 200 {
			h := k.Keep(id("a"), Terms{TTL: ttl}, k.clock.Now(), quiet{})
			begun := make(chan struct{})
			wg.Go(func() {
				close(begun)
				for h.Extend(context.Background(), time.Hour) == nil {
				}
			})
			wg.Go(func() {
				<-begun
				runtime.Gosched()
				_ = h.Stop(context.Background())
				if h.Trusted(0) {
					t.Error("a stopped hold is trusted")
				}
			})
		}
		wg.Wait()
		if left := len(k.queue); left != 0 {
			t.Fatalf("%d stopped holds are in the queue", left)
		}
		k.Close()
	}
}
