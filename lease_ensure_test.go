package distlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// Ensure renews a lease only if it has too little trust left.
func TestLease_Ensure(t *testing.T) {
	const ttl = 30 * time.Second
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t, distlock.TTL(ttl), distlock.NoRenewal())
		lease := must(t)(l.Lock(t.Context(), "k"))
		ensure := func(d time.Duration, renewals int, want error) {
			t.Helper()
			g.reset()
			if err := lease.Ensure(t.Context(), d); !errors.Is(err, want) {
				t.Errorf("Ensure(%v): %v, want %v", d, err, want)
			}
			if n := g.count("renew"); n != renewals {
				t.Errorf("Ensure(%v): %d renewals, want %d", d, n, renewals)
			}
			if held := want == nil; held && !lease.Valid(d) {
				t.Errorf("not valid for %v after Ensure", d)
			}
		}
		ensure(20*time.Second, 0, nil)
		time.Sleep(15 * time.Second)
		if lease.Valid(20 * time.Second) {
			t.Error("Valid reports more time than is left, or has renewed")
		}
		ensure(10*time.Second, 0, nil)
		ensure(20*time.Second, 1, nil)
		ensure(ttl, 0, distlock.ErrInvalid)

		// If the store cannot be reached, the lease is held for the rest of its trust.
		time.Sleep(15 * time.Second)
		g.set(func(g *gate) {
			g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, driver.ErrUnavailable }
		})
		ensure(20*time.Second, 1, distlock.ErrUnavailable)
		if !lease.Valid(10 * time.Second) {
			t.Error("the lease is not held any more")
		}
		g.thaw()
		free(t, lease)
		ensure(0, 0, distlock.ErrReleased)

		bounded := must(t)(l.Lock(t.Context(), "m", distlock.MaxHold(10*time.Second)))
		if err := bounded.Ensure(t.Context(), 20*time.Second); !errors.Is(err, distlock.ErrMaxHold) {
			t.Errorf("past MaxHold: %v", err)
		}
		free(t, bounded)
		g.empty(t, l)
	})
}
