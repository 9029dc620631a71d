package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pair keeps two claims that are renewed together. Whoever is told of that first takes a minute
// over it. pair returns in that minute: the other hold, its witness and the busy one.
func (s *stage) pair() (h *Hold, w, busy *witness) {
	var holds [2]*Hold
	var ears [2]*witness
	var calls, slow atomic.Int32
	for i := range ears {
		ears[i] = &witness{clock: s.clock}
		ears[i].whenTold(func(told) {
			if calls.Add(1) == 1 {
				slow.Store(int32(i))
				time.Sleep(time.Minute)
			}
		})
		holds[i] = s.Keep(id(fmt.Sprint(i)), Terms{TTL: ttl}, s.now(), ears[i])
	}
	s.at(s.now() + 11*ttl/30)
	if len(s.made()[0].rs) != 2 || calls.Load() == 0 {
		s.Fatalf("want one renewal of two: %+v", s.made())
	}
	i := slow.Load()
	return holds[1-i], ears[1-i], ears[i]
}

func TestListener_is_told_in_order_though_another_is_slow(t *testing.T) {
	play(t, down, func(s *stage) {
		_, w, busy := s.pair()
		s.at(5 * time.Minute)
		for _, w := range []*witness{w, busy} {
			w.end(s.T)
			story := w.story()
			if story[0] != "at risk" || slices.Contains(story[1:], "at risk") {
				s.Errorf("told %v", story)
			}
		}
		if at, _ := w.end(s.T); at != trust {
			s.Errorf("the loss was told at %v: it had to wait for another's listener", at)
		}
		if at, _ := busy.end(s.T); at != s.sent()[0]+time.Minute {
			s.Errorf("the loss was told at %v: the listener was called twice at a time", at)
		}
	})
}

func TestListener_is_told_nothing_after_Stop(t *testing.T) {
	for _, a := range []answer{fine, down} {
		play(t, a, func(s *stage) {
			h, w, _ := s.pair()
			before := len(w.all())
			if err := h.Stop(s.Context()); err != nil {
				s.Error(err)
			}
			s.at(5 * time.Minute)
			if got := w.story()[before:]; len(got) != 0 {
				s.Errorf("told %v after Stop", got)
			}
		})
	}
}

// A hold that is lost by its listener's own look is told so when the listener is done.
func TestListener_that_looks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, fine)
		defer s.Close()
		h, w := s.keep(Terms{TTL: ttl})
		w.whenTold(func(n told) {
			if n.lost == nil {
				suspend(time.Hour)
				if !h.Lose() || len(w.all()) != 1 {
					t.Errorf("told %v", w.story())
				}
			}
		})
		s.at(11 * ttl / 30)
		if got := w.story(); !slices.Equal(got, []string{"renewed", "lost"}) {
			t.Errorf("told %v", got)
		}
	})
}

// A panic is the caller's, who may survive it: what comes later is told all the same.
func TestListener_that_panics(t *testing.T) {
	play(t, fine, func(s *stage) {
		h, w := s.keep(Terms{TTL: ttl, Fixed: true})
		w.whenTold(func(n told) {
			if n.lost == nil {
				panic("the listener's own fault")
			}
		})
		func() {
			defer func() {
				if recover() == nil {
					s.Error("no panic")
				}
			}()
			_ = h.Extend(context.Background(), ttl)
		}()
		s.at(2 * ttl)
		if at, cause := w.end(s.T); at != trust || !errors.Is(cause, ErrExpired) {
			s.Errorf("lost at %v by %v", at, cause)
		}
	})
}
