package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

func TestMargin(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{
		{100 * time.Millisecond, 10 * time.Millisecond}, // a tenth
		{time.Second, 100 * time.Millisecond},
		{10 * time.Second, time.Second},
		{30 * time.Second, time.Second}, // a second
		{100 * time.Second, time.Second},
		{200 * time.Second, 2 * time.Second}, // a hundredth
		{24 * time.Hour, 864 * time.Second},
	} {
		if got := Margin(c.ttl); got != c.want {
			t.Errorf("Margin(%v) = %v, want %v", c.ttl, got, c.want)
		}
	}
}

func TestHold_trust_counts_from_sent(t *testing.T) {
	for _, took := range []time.Duration{0, time.Second, 5 * time.Second, ttl/4 - 1} {
		inBubble(t, first(slow(took, nil), down), func(s *harness) {
			h, w := s.keep(Terms{TTL: ttl})
			s.at(ttl*11/30 + took)
			sent := s.sent()[0]
			between(s.T, "trust after an answer that took its time", h.Left(), sent+trust-s.now(), sent+trust-s.now())
			s.at(sent + trust - 1)
			if !h.Trusted(0) || h.Trusted(1) {
				s.Error("trust does not end a margin before the TTL")
			}
			s.at(sent + trust)
			if h.Trusted(0) || h.Left() > 0 {
				s.Error("trusted for too long")
			}
			if at, _ := w.end(s.T); at != sent+trust {
				s.Errorf("the loss was reported at %v, want %v", at, sent+trust)
			}
		})
	}
}

func TestHold_begins_with_what_is_left_of_the_grant(t *testing.T) {
	late := func(context.Context, int) error { time.Sleep(time.Nanosecond); return nil } // not before the test has read h.Left
	inBubble(t, late, func(s *harness) {
		s.at(20 * time.Second)
		h := s.Keep(id("a"), Terms{TTL: ttl}, 0, &recorder{clock: s.clock})
		between(s.T, "trust", h.Left(), 9*time.Second, 9*time.Second)
		s.at(20*time.Second + 1)
		if sent := s.sent(); len(sent) != 1 || sent[0] != 20*time.Second {
			s.Errorf("a renewal that was due at a third went out at %v", sent)
		}
	})
}

func TestHold_trust_ends_though_a_renewal_hangs(t *testing.T) {
	release := make(chan struct{})
	inBubble(t, func(context.Context, int) error { <-release; return nil }, func(s *harness) {
		release = make(chan struct{}) // of this bubble
		h, w := s.keep(Terms{TTL: ttl})
		s.at(trust - 1)
		if !h.Trusted(0) || len(w.all()) != 0 || s.underWay() != 1 {
			s.Errorf("before the end: left %v, listener got %v", h.Left(), w.summary())
		}
		s.at(trust)
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) || h.Trusted(0) {
			s.Errorf("lost at %v by %v", at, cause)
		}
		s.at(trust + 1)
		close(release) // a good answer that comes too late
		synctest.Wait()
		s.at(3 * ttl)
		if h.Trusted(0) || len(w.all()) != 1 || len(s.made()) != 1 {
			s.Errorf("a lost hold came back: listener got %v, %d calls", w.summary(), len(s.made()))
		}
	})
}

func TestHold_survives_failures_shorter_than_its_trust(t *testing.T) {
	inBubble(t, nil, func(s *harness) {
		from, to := 5*time.Second, 28*time.Second-ttl*11/200
		s.answer = func(context.Context, int) error {
			if s.now() > from && s.now() < to {
				return errDown
			}
			return nil
		}
		h, w := s.keep(Terms{TTL: ttl})
		s.at(5 * ttl)
		if !h.Trusted(0) || slices.Contains(w.summary(), "lost") || !slices.Contains(w.summary(), "recovered") {
			s.Errorf("listener got %v", w.summary())
		}
	})
}

func TestHold_Lose(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		if h.Lose() || len(w.all()) != 0 {
			s.Error("a hold that is trusted was lost")
		}
		if err := h.Stop(s.Context()); err != nil {
			s.Error(err)
		}
		if !h.Lose() || len(w.all()) != 0 {
			s.Error("a stopped hold has not ended, or its loss was reported")
		}
	})
}

func TestHold_Cause(t *testing.T) {
	gone := fmt.Errorf("node 3: %w", driver.ErrNotHeld)
	for name, c := range map[string]struct {
		terms  Terms
		answer answer
		end    func(s *harness, h *Hold)
		want   error
	}{
		"expired":  {Terms{TTL: ttl, Fixed: true}, fine, func(s *harness, _ *Hold) { s.at(trust) }, ErrExpired},
		"max hold": {Terms{TTL: ttl, MaxHold: time.Second}, fine, func(s *harness, _ *Hold) { s.at(time.Second) }, ErrMaxHold},
		"by an answer": {
			Terms{TTL: ttl}, func(context.Context, int) error { return gone },
			func(s *harness, _ *Hold) { s.at(ttl / 2) }, gone,
		},
		"gone":    {Terms{TTL: ttl}, fine, func(_ *harness, h *Hold) { h.Gone() }, driver.ErrNotHeld},
		"stopped": {Terms{TTL: ttl}, fine, func(s *harness, h *Hold) { _ = h.Stop(s.Context()) }, ErrStopped},
		"closed":  {Terms{TTL: ttl}, fine, func(s *harness, _ *Hold) { s.Close() }, ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.answer, func(s *harness) {
				h, _ := s.keep(c.terms)
				if err := h.Cause(); err != nil {
					s.Errorf("Cause = %v while the hold lasts", err)
				}
				c.end(s, h)
				if err := h.Cause(); !errors.Is(err, c.want) {
					s.Errorf("Cause = %v, want %v", err, c.want)
				}
				_ = h.Stop(s.Context())
				if err := h.Cause(); !errors.Is(err, c.want) {
					s.Errorf("Cause = %v after Stop, want %v", err, c.want)
				}
			})
		})
	}
}

// Cause waits for no renewal, and returns the loss before the listener is called.
func TestHold_Cause_does_not_block(t *testing.T) {
	var slept time.Duration
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := newHarness(t, sleeper(func() time.Duration { return slept }), func(context.Context, int) error {
			<-release
			return nil
		})
		defer s.Close()
		defer close(release)
		h, w := s.keep(Terms{TTL: ttl})
		s.at(ttl / 2)
		before := s.now()
		if err := h.Cause(); err != nil || s.underWay() != 1 || s.now() != before {
			t.Errorf("Cause = %v after %v, %d renewals are under way", err, s.now()-before, s.underWay())
		}
		slept = time.Hour
		if err := h.Cause(); !errors.Is(err, ErrExpired) || len(w.all()) != 0 || s.underWay() != 1 {
			t.Errorf("Cause = %v, listener got %v, %d renewals are under way", err, w.summary(), s.underWay())
		}
		h.Lose()
		if _, cause := w.end(t); !errors.Is(h.Cause(), cause) {
			t.Errorf("Cause = %v, lost by %v", h.Cause(), cause)
		}
	})
}

func TestHold_Fixed_is_not_renewed(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		_, w := s.keep(Terms{TTL: ttl, Fixed: true})
		s.at(2 * ttl)
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) || len(s.made()) != 0 {
			s.Errorf("lost at %v by %v after %d renewals", at, cause, len(s.made()))
		}
	})
}

func TestHold_MaxHold_ends_a_hold_whose_renewals_work(t *testing.T) {
	for _, most := range []time.Duration{time.Second, 17 * time.Second, 4 * ttl} {
		inBubble(t, fine, func(s *harness) {
			h, w := s.keep(Terms{TTL: ttl, MaxHold: most})
			if h.Left() != min(most, trust) {
				s.Errorf("%v left", h.Left())
			}
			s.at(most - 1)
			if !h.Trusted(0) {
				s.Error("lost too early")
			}
			s.at(10 * ttl)
			if at, cause := w.end(s.T); at != most || !errors.Is(cause, ErrMaxHold) {
				s.Errorf("lost at %v by %v", at, cause)
			}
			if n := len(s.sent()); n > 0 && s.sent()[n-1] >= most {
				s.Error("renewed after the loss")
			}
		})
	}
}

func TestHold_MaxHold_does_not_hide_a_failure(t *testing.T) {
	inBubble(t, down, func(s *harness) {
		_, w := s.keep(Terms{TTL: ttl, MaxHold: ttl})
		s.at(2 * ttl)
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) {
			s.Errorf("lost at %v by %v", at, cause)
		}
	})
}

func TestHold_HandOff(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, MaxHold: 20 * time.Second})
		s.at(19 * time.Second)
		h.HandOff(50 * time.Second)
		if h.Terms().MaxHold != 50*time.Second {
			s.Errorf("terms %+v", h.Terms())
		}
		s.at(69*time.Second - 1)
		if !h.Trusted(0) {
			s.Fatal("lost by the bound of the user before")
		}
		h.HandOff(0)
		s.at(5 * time.Minute)
		if !h.Trusted(0) {
			s.Fatal("lost though there is no bound")
		}
		h.HandOff(time.Second)
		s.at(5*time.Minute + 10*time.Second)
		if at, cause := w.end(s.T); at != 5*time.Minute+time.Second || !errors.Is(cause, ErrMaxHold) {
			s.Errorf("lost at %v by %v", at, cause)
		}
		h.HandOff(time.Hour)
		if h.Trusted(0) {
			s.Error("a lost hold came back")
		}
	})
}

func TestHold_Again(t *testing.T) {
	inBubble(t, down, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		s.at(25 * time.Second)
		h.Again(24 * time.Second)
		between(s.T, "trust", h.Left(), 28*time.Second, 28*time.Second)
		tries := len(s.made())
		s.at(24*time.Second + 3*ttl/10 - 1)
		if len(s.made()) != tries {
			s.Error("a hold that was granted again is renewed as if it were at risk")
		}
		h.Again(time.Second) // an answer that was overtaken
		between(s.T, "trust", h.Left(), 24*time.Second+trust-s.now(), 24*time.Second+trust-s.now())
		s.at(3 * ttl)
		if at, _ := w.end(s.T); at != 24*time.Second+trust {
			s.Errorf("lost at %v", at)
		}
		h.Again(s.now())
		if h.Trusted(0) {
			s.Error("a lost hold came back")
		}
		got := w.summary()
		if i := slices.Index(got[1:], "at risk"); i < 0 {
			s.Errorf("listener got %v: the risk had ended when it was granted again", got)
		}
	})
}

func TestHold_Stop(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		s.at(ttl)
		before := len(w.all())
		if err := h.Stop(s.Context()); err != nil {
			s.Error(err)
		}
		if h.Trusted(0) || h.Left() > 0 {
			s.Error("a hold that was stopped is trusted")
		}
		if err := h.Stop(s.Context()); !errors.Is(err, ErrStopped) {
			s.Errorf("stopped twice: %v", err)
		}
		calls := len(s.made())
		s.at(5 * ttl)
		if len(s.made()) != calls || len(w.all()) != before {
			s.Error("renewed or reported after Stop")
		}
	})
}

func TestHold_Stop_sees_that_trust_has_ended(t *testing.T) {
	slept := time.Duration(0)
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t, sleeper(func() time.Duration { return slept }), fine)
		defer s.Close()
		h, w := s.keep(Terms{TTL: ttl})
		slept = time.Hour
		if err := h.Stop(t.Context()); !errors.Is(err, ErrExpired) {
			t.Errorf("Stop = %v", err)
		}
		w.end(t)
	})
}

func TestHold_Stop_cuts_a_renewal_short(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		s.at(11 * ttl / 30)
		if s.underWay() != 1 {
			s.Fatal("no renewal is under way")
		}
		before := s.now()
		if err := h.Stop(s.Context()); err != nil {
			s.Error(err)
		}
		if s.underWay() != 0 || s.now() != before {
			s.Errorf("Stop took %v, %d renewals are under way", s.now()-before, s.underWay())
		}
		s.at(3 * ttl)
		if len(w.all()) != 0 || len(s.made()) != 1 {
			s.Errorf("listener got %v after Stop", w.summary())
		}
	})
}

func TestHold_Stop_waits_for_a_renewal_that_others_need(t *testing.T) {
	inBubble(t, slow(5*time.Second, nil), func(s *harness) {
		a, wa := s.keep(Terms{TTL: ttl})
		wb := &recorder{clock: s.clock}
		b := s.Keep(id("b"), Terms{TTL: ttl}, 0, wb)
		wb.onCall(func(record) { time.Sleep(time.Second) }) // Stop does not wait for listeners
		s.at(11 * ttl / 30)
		if len(s.made()) != 1 || len(s.made()[0].rs) != 2 {
			s.Fatalf("want one renewal of two: %+v", s.made())
		}
		if err := a.Stop(s.Context()); err != nil {
			s.Error(err)
		}
		if s.now() != s.sent()[0]+5*time.Second || s.underWay() != 0 {
			s.Errorf("Stop returned at %v, the renewal was sent at %v", s.now(), s.sent()[0])
		}
		synctest.Wait()
		if !b.Trusted(trust - 5*time.Second - 1) {
			s.Errorf("the other was not renewed: %v left", b.Left())
		}
		if len(wa.all()) != 0 || !slices.Equal(wb.summary(), []string{"renewed"}) {
			s.Errorf("listener got %v and %v", wa.summary(), wb.summary())
		}
	})
}

func TestHold_Stop_waits_no_longer_than_ctx(t *testing.T) {
	inBubble(t, slow(5*time.Second, nil), func(s *harness) {
		a, _ := s.keep(Terms{TTL: ttl})
		s.Keep(id("b"), Terms{TTL: ttl}, 0, &recorder{clock: s.clock})
		s.at(11 * ttl / 30)
		ctx, cancel := context.WithTimeout(s.Context(), time.Millisecond)
		defer cancel()
		before := s.now()
		if err := a.Stop(ctx); err != nil || s.now() != before+time.Millisecond {
			s.Errorf("Stop = %v after %v", err, s.now()-before)
		}
	})
}

func TestHold_Stop_of_all_cuts_their_renewal_short(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		a, _ := s.keep(Terms{TTL: ttl})
		b := s.Keep(id("b"), Terms{TTL: ttl}, 0, &recorder{clock: s.clock})
		s.at(11 * ttl / 30)
		before := s.now()
		done := make(chan error)
		go func() { done <- a.Stop(s.Context()) }()
		synctest.Wait()
		if err := errors.Join(b.Stop(s.Context()), <-done); err != nil || s.now() != before {
			s.Errorf("%v after %v", err, s.now()-before)
		}
	})
}

func TestHold_Stop_waits_though_the_hold_is_lost(t *testing.T) {
	inBubble(t, nil, func(s *harness) {
		answer := make(chan struct{})
		s.answer = func(context.Context, int) error { <-answer; return nil }
		h, w := s.keep(Terms{TTL: ttl})
		s.at(trust)
		w.end(s.T)
		time.AfterFunc(time.Second, func() { close(answer) })
		if err := h.Stop(s.Context()); !errors.Is(err, ErrExpired) || s.underWay() != 0 || s.now() != trust+time.Second {
			s.Errorf("Stop = %v at %v, %d renewals are under way", err, s.now(), s.underWay())
		}
	})
}

func TestHold_Stop_twice_waits_twice(t *testing.T) {
	inBubble(t, slow(5*time.Second, nil), func(s *harness) {
		a, _ := s.keep(Terms{TTL: ttl})
		s.Keep(id("b"), Terms{TTL: ttl}, 0, quiet{})
		s.at(11 * ttl / 30)
		go func() { _ = a.Stop(context.Background()) }()
		synctest.Wait()
		if err := a.Stop(s.Context()); !errors.Is(err, ErrStopped) || s.underWay() != 0 {
			s.Errorf("Stop = %v, %d renewals are under way", err, s.underWay())
		}
	})
}

// A lost hold waits for no renewal, and no renewal waits for it.
func TestHold_lost_cuts_its_renewal_short(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		s.keep(Terms{TTL: ttl, MaxHold: 12 * time.Second})
		s.at(12 * time.Second)
		if len(s.made()) != 1 || s.underWay() != 0 {
			s.Errorf("%d renewals are under way", s.underWay())
		}
	})
}

func TestHold_Stop_by_the_listener(t *testing.T) {
	for _, a := range []answer{fine, down, silent, func(context.Context, int) error { return driver.ErrNotHeld }} {
		inBubble(t, a, func(s *harness) {
			h, w := s.keep(Terms{TTL: ttl})
			stopped := make(chan error, 10)
			w.onCall(func(record) { stopped <- h.Stop(context.Background()) })
			s.at(2 * ttl)
			if len(stopped) == 0 || h.Trusted(0) || s.underWay() != 0 {
				s.Errorf("stopped %d times, listener got %v", len(stopped), w.summary())
			}
		})
	}
}

func TestHold_Stop_by_the_listener_of_the_loss(t *testing.T) {
	inBubble(t, silent, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl})
		stopped := make(chan error, 1)
		w.onCall(func(n record) {
			if n.lost != nil {
				stopped <- h.Stop(context.Background())
			}
		})
		s.at(2 * ttl)
		if err := <-stopped; !errors.Is(err, ErrExpired) {
			s.Errorf("Stop = %v", err)
		}
	})
}

// A provisional hold is trusted for the part of its TTL that it was given, and renewed soon. If the
// renewal fails, the keeper tries again while there is trust.
func TestKeeper_KeepProvisional(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		s.at(time.Second)
		h := new(Hold)
		s.KeepProvisional(h, id("a"), Terms{TTL: ttl}, 0, 3*time.Second, quiet{})
		if want := 3*time.Second - Margin(3*time.Second) - s.now(); h.Left() != want || !h.Provisional() {
			t.Errorf("trusted for %v, provisional %v; want %v and provisional", h.Left(), h.Provisional(), want)
		}
		s.at(time.Second + 2*confirmAfter)
		if h.Left() < ttl/2 || h.Provisional() || len(s.sent()) != 1 {
			t.Errorf("trusted for %v, provisional %v, after %d renewals; want a whole TTL after one",
				h.Left(), h.Provisional(), len(s.sent()))
		}
	})
	inBubble(t, silent, func(s *harness) {
		h := new(Hold)
		s.KeepProvisional(h, id("a"), Terms{TTL: ttl}, 0, 3*time.Second, quiet{})
		s.at(3 * time.Second)
		if h.Trusted(0) {
			t.Error("trusted for longer than it was given")
		}
	})
	inBubble(t, fine, func(s *harness) {
		s.at(3 * time.Second)
		if s.KeepProvisional(new(Hold), id("a"), Terms{TTL: ttl}, 0, 3*time.Second, quiet{}) {
			t.Error("kept without trust")
		}
	})
}
