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

// pair keeps two claims that are renewed together. The listener that is notified first blocks for a
// minute. pair returns in that minute: the other hold, its recorder and the busy recorder.
func (s *harness) pair() (h *Hold, w, busy *recorder) {
	var holds [2]*Hold
	var recorders [2]*recorder
	var calls, slow atomic.Int32
	for i := range recorders {
		recorders[i] = &recorder{clock: s.clock}
		recorders[i].onCall(func(record) {
			if calls.Add(1) == 1 {
				slow.Store(int32(i))
				time.Sleep(time.Minute)
			}
		})
		holds[i] = s.Keep(id(fmt.Sprint(i)), Terms{TTL: ttl}, s.now(), recorders[i])
	}
	s.at(s.now() + 11*ttl/30)
	if len(s.made()[0].rs) != 2 || calls.Load() == 0 {
		s.Fatalf("want one renewal of two: %+v", s.made())
	}
	i := slow.Load()
	return holds[1-i], recorders[1-i], recorders[i]
}

func TestListener_is_called_in_order_though_another_is_slow(t *testing.T) {
	inBubble(t, down, func(s *harness) {
		_, w, busy := s.pair()
		s.at(5 * time.Minute)
		for _, w := range []*recorder{w, busy} {
			w.end(s.T)
			got := w.summary()
			if got[0] != "at risk" || slices.Contains(got[1:], "at risk") {
				s.Errorf("listener got %v", got)
			}
		}
		if at, _ := w.end(s.T); at != trust {
			s.Errorf("the loss was reported at %v: it had to wait for another's listener", at)
		}
		if at, _ := busy.end(s.T); at != s.sent()[0]+time.Minute {
			s.Errorf("the loss was reported at %v: the listener was called twice at a time", at)
		}
	})
}

func TestListener_is_not_called_after_Stop(t *testing.T) {
	for _, a := range []answer{fine, down} {
		inBubble(t, a, func(s *harness) {
			h, w, _ := s.pair()
			before := len(w.all())
			if err := h.Stop(s.Context()); err != nil {
				s.Error(err)
			}
			s.at(5 * time.Minute)
			if got := w.summary()[before:]; len(got) != 0 {
				s.Errorf("listener got %v after Stop", got)
			}
		})
	}
}

// A listener that ends its own hold by a call of Lose gets the loss after the current call.
func TestListener_that_calls_Lose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, suspend := suspendable(t, fine)
		defer s.Close()
		h, w := s.keep(Terms{TTL: ttl})
		w.onCall(func(n record) {
			if n.lost == nil {
				suspend(time.Hour)
				if !h.Lose() || len(w.all()) != 1 {
					t.Errorf("listener got %v", w.summary())
				}
			}
		})
		s.at(11 * ttl / 30)
		if got := w.summary(); !slices.Equal(got, []string{"renewed", "lost"}) {
			t.Errorf("listener got %v", got)
		}
	})
}

// A panic of the listener reaches the caller, who may recover. The listener still gets later calls.
func TestListener_that_panics(t *testing.T) {
	inBubble(t, fine, func(s *harness) {
		h, w := s.keep(Terms{TTL: ttl, Fixed: true})
		w.onCall(func(n record) {
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
