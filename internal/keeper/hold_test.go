package keeper

import (
	"context"
	"errors"
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
		play(t, first(slow(took, nil), down), func(s *stage) {
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
				s.Errorf("the loss was told at %v, want %v", at, sent+trust)
			}
		})
	}
}

func TestHold_begins_with_what_is_left_of_the_grant(t *testing.T) {
	late := func(context.Context, int) error { time.Sleep(time.Nanosecond); return nil } // not before it was looked at
	play(t, late, func(s *stage) {
		s.at(20 * time.Second)
		h := s.Keep(id("a"), Terms{TTL: ttl}, 0, &witness{clock: s.clock})
		between(s.T, "trust", h.Left(), 9*time.Second, 9*time.Second)
		s.at(20*time.Second + 1)
		if sent := s.sent(); len(sent) != 1 || sent[0] != 20*time.Second {
			s.Errorf("a renewal that was due at a third went out at %v", sent)
		}
	})
}

func TestHold_trust_ends_though_a_renewal_hangs(t *testing.T) {
	release := make(chan struct{})
	play(t, func(context.Context, int) error { <-release; return nil }, func(s *stage) {
		release = make(chan struct{}) // of this bubble
		h, w := s.keep(Terms{TTL: ttl})
		s.at(trust - 1)
		if !h.Trusted(0) || len(w.all()) != 0 || s.underWay() != 1 {
			s.Errorf("before the end: left %v, told %v", h.Left(), w.story())
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
			s.Errorf("what was lost came back: told %v, %d calls", w.story(), len(s.made()))
		}
	})
}

func TestHold_survives_failures_shorter_than_its_trust(t *testing.T) {
	play(t, nil, func(s *stage) {
		from, to := 5*time.Second, 28*time.Second-ttl*11/200
		s.answer = func(context.Context, int) error {
			if s.now() > from && s.now() < to {
				return errDown
			}
			return nil
		}
		h, w := s.keep(Terms{TTL: ttl})
		s.at(5 * ttl)
		if !h.Trusted(0) || slices.Contains(w.story(), "lost") || !slices.Contains(w.story(), "recovered") {
			s.Errorf("told %v", w.story())
		}
	})
}

func TestHold_Lose(t *testing.T) {
	play(t, fine, func(s *stage) {
		h, w := s.keep(Terms{TTL: ttl})
		if h.Lose() || len(w.all()) != 0 {
			s.Error("a hold that is trusted was lost")
		}
		if err := h.Stop(s.Context()); err != nil {
			s.Error(err)
		}
		if !h.Lose() || len(w.all()) != 0 {
			s.Error("a hold that was stopped is not over, or its loss was told")
		}
	})
}

func TestHold_Fixed_is_not_renewed(t *testing.T) {
	play(t, fine, func(s *stage) {
		_, w := s.keep(Terms{TTL: ttl, Fixed: true})
		s.at(2 * ttl)
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) || len(s.made()) != 0 {
			s.Errorf("lost at %v by %v after %d renewals", at, cause, len(s.made()))
		}
	})
}

func TestHold_MaxHold_ends_a_hold_whose_renewals_work(t *testing.T) {
	for _, most := range []time.Duration{time.Second, 17 * time.Second, 4 * ttl} {
		play(t, fine, func(s *stage) {
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
	play(t, down, func(s *stage) {
		_, w := s.keep(Terms{TTL: ttl, MaxHold: ttl})
		s.at(2 * ttl)
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) {
			s.Errorf("lost at %v by %v", at, cause)
		}
	})
}

func TestHold_Pass(t *testing.T) {
	play(t, fine, func(s *stage) {
		h, w := s.keep(Terms{TTL: ttl, MaxHold: 20 * time.Second})
		s.at(19 * time.Second)
		h.Pass(50 * time.Second)
		if h.Terms().MaxHold != 50*time.Second {
			s.Errorf("terms %+v", h.Terms())
		}
		s.at(69*time.Second - 1)
		if !h.Trusted(0) {
			s.Fatal("lost by the bound of the hands before")
		}
		h.Pass(0)
		s.at(5 * time.Minute)
		if !h.Trusted(0) {
			s.Fatal("lost though there is no bound")
		}
		h.Pass(time.Second)
		s.at(5*time.Minute + 10*time.Second)
		if at, cause := w.end(s.T); at != 5*time.Minute+time.Second || !errors.Is(cause, ErrMaxHold) {
			s.Errorf("lost at %v by %v", at, cause)
		}
		h.Pass(time.Hour)
		if h.Trusted(0) {
			s.Error("what was lost came back")
		}
	})
}

func TestHold_Again(t *testing.T) {
	play(t, down, func(s *stage) {
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
			s.Error("what was lost came back")
		}
		story := w.story()
		if i := slices.Index(story[1:], "at risk"); i < 0 {
			s.Errorf("told %v: the risk was over when it was granted again", story)
		}
	})
}

func TestHold_Stop(t *testing.T) {
	play(t, fine, func(s *stage) {
		h, w := s.keep(Terms{TTL: ttl})
		s.at(ttl)
		told := len(w.all())
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
		if len(s.made()) != calls || len(w.all()) != told {
			s.Error("renewed or told after Stop")
		}
	})
}

func TestHold_Stop_sees_that_the_trust_is_over(t *testing.T) {
	slept := time.Duration(0)
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, sleeper(func() time.Duration { return slept }), fine)
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
	play(t, deaf, func(s *stage) {
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
			s.Errorf("told %v after Stop", w.story())
		}
	})
}

func TestHold_Stop_waits_for_a_renewal_that_others_need(t *testing.T) {
	play(t, slow(5*time.Second, nil), func(s *stage) {
		a, wa := s.keep(Terms{TTL: ttl})
		wb := &witness{clock: s.clock}
		b := s.Keep(id("b"), Terms{TTL: ttl}, 0, wb)
		wb.whenTold(func(told) { time.Sleep(time.Second) }) // Stop does not wait for listeners
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
		if len(wa.all()) != 0 || !slices.Equal(wb.story(), []string{"renewed"}) {
			s.Errorf("told %v and %v", wa.story(), wb.story())
		}
	})
}

func TestHold_Stop_waits_no_longer_than_ctx(t *testing.T) {
	play(t, slow(5*time.Second, nil), func(s *stage) {
		a, _ := s.keep(Terms{TTL: ttl})
		s.Keep(id("b"), Terms{TTL: ttl}, 0, &witness{clock: s.clock})
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
	play(t, deaf, func(s *stage) {
		a, _ := s.keep(Terms{TTL: ttl})
		b := s.Keep(id("b"), Terms{TTL: ttl}, 0, &witness{clock: s.clock})
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
	play(t, nil, func(s *stage) {
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
	play(t, slow(5*time.Second, nil), func(s *stage) {
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

// Whoever is lost waits for nobody, and nobody for him.
func TestHold_lost_cuts_its_renewal_short(t *testing.T) {
	play(t, deaf, func(s *stage) {
		s.keep(Terms{TTL: ttl, MaxHold: 12 * time.Second})
		s.at(12 * time.Second)
		if len(s.made()) != 1 || s.underWay() != 0 {
			s.Errorf("%d renewals are under way", s.underWay())
		}
	})
}

func TestHold_Stop_by_the_listener(t *testing.T) {
	for _, a := range []answer{fine, down, deaf, func(context.Context, int) error { return driver.ErrNotHeld }} {
		play(t, a, func(s *stage) {
			h, w := s.keep(Terms{TTL: ttl})
			stopped := make(chan error, 10)
			w.whenTold(func(told) { stopped <- h.Stop(context.Background()) })
			s.at(2 * ttl)
			if len(stopped) == 0 || h.Trusted(0) || s.underWay() != 0 {
				s.Errorf("stopped %d times, told %v", len(stopped), w.story())
			}
		})
	}
}

func TestHold_Stop_by_the_listener_of_the_loss(t *testing.T) {
	play(t, deaf, func(s *stage) {
		h, w := s.keep(Terms{TTL: ttl})
		stopped := make(chan error, 1)
		w.whenTold(func(n told) {
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

// What was given a part of its TTL is trusted for that, and renewed soon; if that fails, again while there is trust.
func TestKeeper_KeepYoung(t *testing.T) {
	play(t, fine, func(s *stage) {
		s.at(time.Second)
		h := new(Hold)
		s.KeepProvisional(h, id("a"), Terms{TTL: ttl}, 0, 3*time.Second, quiet{})
		if want := 3*time.Second - Margin(3*time.Second) - s.now(); h.Left() != want || !h.Provisional() {
			t.Errorf("trusted for %v, young %v; want %v and young", h.Left(), h.Provisional(), want)
		}
		s.at(time.Second + 2*youth)
		if h.Left() < ttl/2 || h.Provisional() || len(s.sent()) != 1 {
			t.Errorf("trusted for %v, young %v, after %d renewals; want a whole TTL after one", h.Left(), h.Provisional(), len(s.sent()))
		}
	})
	play(t, deaf, func(s *stage) {
		h := new(Hold)
		s.KeepProvisional(h, id("a"), Terms{TTL: ttl}, 0, 3*time.Second, quiet{})
		s.at(3 * time.Second)
		if h.Trusted(0) {
			t.Error("trusted for longer than it was given")
		}
	})
	play(t, fine, func(s *stage) {
		s.at(3 * time.Second)
		if s.KeepProvisional(new(Hold), id("a"), Terms{TTL: ttl}, 0, 3*time.Second, quiet{}) {
			t.Error("kept without trust")
		}
	})
}
