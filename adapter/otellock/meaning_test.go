package otellock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// TestMetrics_rare checks the metrics of events that are rare.
func TestMetrics_rare(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithTimeout(context.Background(), -1)
	defer cancel()
	op := &distlock.OpError{Op: "acquire", Name: "x", Err: driver.ErrUnavailable}
	refused := func(outcome string) []string {
		return []string{"distlock.acquire.duration mode=exclusive outcome=" + outcome + " store=mem"}
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		e    distlock.Event
		want []string
	}{
		"a renewal too late": {t.Context(), distlock.Event{Type: distlock.EventRenewed, Left: -1}, []string{"distlock.renew.duration outcome=lost store=mem"}},
		"a renewal of a provisional lease": {
			t.Context(), distlock.Event{Type: distlock.EventRenewed, Left: time.Second}, []string{"distlock.renew.duration outcome=ok store=mem"},
		},
		"an attempt that its caller cancelled": {ended, distlock.Event{Type: distlock.EventAttempted, Err: context.Canceled}, nil},
		"an attempt that was late": {
			late, distlock.Event{Type: distlock.EventAttempted, Err: fmt.Errorf("no answer: %w", context.DeadlineExceeded)},
			[]string{"distlock.store.errors kind=timeout op=acquire store=mem"},
		},
		"a release that was cancelled":         {ended, distlock.Event{Type: distlock.EventReleased, Err: op}, []string{"distlock.hold.duration end=released mode=exclusive store=mem", "distlock.leases mode=exclusive store=mem", "distlock.store.errors kind=unavailable op=release store=mem"}},
		"a timeout, and the store never there": {late, distlock.Event{Type: distlock.EventRefused, Err: errors.Join(op, late.Err())}, refused("error")},
		"cancelled, and the store never there": {ended, distlock.Event{Type: distlock.EventRefused, Err: errors.Join(op, ended.Err())}, refused("cancelled")},
		"held, and a timeout since":            {late, distlock.Event{Type: distlock.EventRefused, Err: &distlock.HeldError{}}, refused("busy")},
		"a reader that wants to write":         {t.Context(), distlock.Event{Type: distlock.EventRefused, Err: distlock.ErrUpgrade}, refused("error")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbe(t, nil)
			c.e.Store, c.e.Name, c.e.Mode = "mem", "x", distlock.ModeExclusive
			p.observe(c.ctx, c.e)
			p.want(c.want...)
		})
	}
}

// TestGroups_odd checks a group with the name "other", and one that ends within a UTF-8 character.
func TestGroups_odd(t *testing.T) {
	p := newProbe(t, func(key string) string { return key })
	for i := range 100 {
		p.observe(t.Context(), distlock.Event{Type: distlock.EventWaiting, Store: "mem", Name: fmt.Sprint(i), Mode: distlock.ModeShared})
		p.observe(t.Context(), distlock.Event{Type: distlock.EventWaiting, Store: "mem", Name: "other", Mode: distlock.ModeShared})
	}
	got := p.points()
	if len(got) != 101 || got["distlock.waiters group=other mode=shared store=mem"].sum != 100 {
		t.Errorf("%d series, %v", len(got), got)
	}
	p = newProbe(t, func(key string) string { return key[:1] })
	p.observe(t.Context(), distlock.Event{Type: distlock.EventWaiting, Store: "mem", Name: "äh", Mode: distlock.ModeShared})
	p.want("distlock.waiters group=\uFFFD mode=shared store=mem")
}
