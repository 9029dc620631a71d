package keeper

import (
	"testing"
	"time"
)

// last returns the last renewal that was reported.
func (w *recorder) last(t *testing.T) Renewal {
	t.Helper()
	all := w.all()
	if len(all) == 0 {
		t.Fatal("nothing was reported")
	}
	return all[len(all)-1].r
}

func TestRenewal_Margin(t *testing.T) {
	for name, c := range map[string]struct {
		terms Terms
		late  time.Duration // when the test calls Extend
		to    time.Duration // the TTL of that call
		want  time.Duration
		thin  bool
	}{
		"in time":            {Terms{TTL: ttl, Fixed: true}, 10 * time.Second, ttl, 19 * time.Second, false},
		"as late as may be":  {Terms{TTL: ttl, Fixed: true}, trust - ttl/4, ttl, ttl / 4, false},
		"later":              {Terms{TTL: ttl, Fixed: true}, trust - ttl/4 + 1, ttl, ttl/4 - 1, true},
		"for longer":         {Terms{TTL: ttl, Fixed: true}, 10 * time.Second, time.Hour, 19 * time.Second, false},
		"for shorter":        {Terms{TTL: time.Hour, Fixed: true}, time.Minute, ttl, trust, false},
		"before a long hold": {Terms{TTL: ttl, Fixed: true, MaxHold: 11 * time.Second}, 10 * time.Second, ttl, 19 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, fine, func(s *harness) {
				h, w := s.keep(c.terms)
				s.at(c.late)
				if err := h.Extend(s.Context(), c.to); err != nil {
					s.Fatal(err)
				}
				if r := w.last(s.T); r.Margin != c.want || r.Thin != c.thin {
					s.Errorf("%+v, want a margin of %v, thin %v", r, c.want, c.thin)
				}
			})
		})
	}
}

// A renewal that failed or came too late has no margin.
func TestRenewal_Margin_of_none(t *testing.T) {
	for name, a := range map[string]answer{"down": down, "too late": slow(20*time.Second, nil)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, a, func(s *harness) {
				h, w := s.keep(Terms{TTL: ttl, Fixed: true})
				s.at(10 * time.Second)
				if err := h.Extend(s.Context(), ttl); err == nil {
					s.Error("extended")
				}
				if r := w.all()[0].r; r.Margin != 0 || r.Thin {
					s.Errorf("%+v", r)
				}
			})
		})
	}
}
