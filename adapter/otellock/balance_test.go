package otellock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

// TestMetrics_balance lets clients of all kinds compete over bad links, and closes their Lockers in
// the middle of it. In the end distlock.waiters and distlock.leases must be 0.
func TestMetrics_balance(t *testing.T) {
	seen := map[string]uint64{}
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			p := newProbe(t, nil)
			compete(t, p, seed)
			for s, x := range p.points() {
				if strings.HasPrefix(s, "distlock.leases") || strings.HasPrefix(s, "distlock.waiters") {
					t.Errorf("seed %d: %s is %v in the end", seed, s, x.sum)
				}
				name, rest, _ := strings.Cut(s, " ")
				seen[name] += x.count + uint64(max(0, x.sum))
				for _, kv := range strings.Fields(rest) {
					seen[kv] += x.count + uint64(max(0, x.sum))
				}
			}
		})
	}
	for _, s := range []string{
		"outcome=granted", "outcome=busy", "outcome=timeout", "outcome=cancelled", "outcome=error", "outcome=ok", "outcome=lost",
		"end=released", "end=lost", "end=expired", "mode=exclusive", "mode=shared", "mode=counted",
		"reason=expired", "reason=taken", "reason=store", "reason=broken", "op=acquire", "op=renew", "op=release", "op=withdraw",
		"kind=unavailable", "kind=timeout", "kind=unknown",
	} {
		if seen[s] < 5 {
			t.Errorf("%s happened %d times: too few to test it", s, seen[s])
		}
	}
}

// compete runs the clients of one seed until their Lockers are closed.
func compete(t *testing.T, p *probe, seed uint64) {
	const ttl = 2 * time.Second
	rng := rand.New(rand.NewPCG(seed, 1))
	store := chaos.HandOff(mem.New())
	var wg sync.WaitGroup
	for i := range 3 {
		link := chaos.New(store, &chaos.Options{Name: fmt.Sprint("link-", i), Timeout: ttl / 2, Plan: chaos.Plan{
			Seed: seed, Delay: ttl, Latency: 30 * time.Millisecond,
			Chance: map[chaos.Kind]float64{
				chaos.RequestLost: .04, chaos.ReplyLost: .04, chaos.RequestLate: .04, chaos.ReplyLate: .04, chaos.Repeated: .04,
				chaos.Frozen: .02, chaos.Unavailable: .06, chaos.WakeLost: .2, chaos.WakeFalse: .2,
			},
		}})
		defer link.Close()
		l, err := distlock.New(link, distlock.TTL(ttl), distlock.Observe(p.observe))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			time.Sleep(time.Duration(20+i) * time.Second) // some calls are under way
			_ = l.Close(context.Background())
		})
		for range 4 {
			c := &client{l: l, store: store, rng: rand.New(rand.NewPCG(rng.Uint64(), 2))}
			wg.Go(func() {
				for !errors.Is(c.step(t.Context()), distlock.ErrClosed) {
					c.pause(200 * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	time.Sleep(time.Minute) // for late events
	synctest.Wait()
}

// A client makes random calls.
type client struct {
	l     *distlock.Locker
	store driver.Store
	rng   *rand.Rand
}

func (c *client) pause(most time.Duration) { time.Sleep(time.Duration(c.rng.Int64N(int64(most)))) }

func (c *client) step(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	if c.rng.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(c.rng.IntN(500))*time.Millisecond, cancel).Stop()
	}
	wait := distlock.MaxWait(time.Duration(1+c.rng.IntN(3000)) * time.Millisecond)
	name := string(rune('a' + c.rng.IntN(3)))
	var lease *distlock.Lease
	var err error
	switch c.rng.IntN(9) {
	case 0:
		lease, err = c.l.TryLock(ctx, name)
	case 1, 2:
		lease, err = c.l.Lock(ctx, name, wait, distlock.MaxHold(time.Duration(1+c.rng.IntN(5))*time.Second))
	case 3:
		lease, err = c.l.RLock(ctx, name, wait)
	case 4:
		sem, _ := c.l.Semaphore(2)
		lease, err = sem.Acquire(ctx, name, wait)
	case 5:
		var all *distlock.Leases
		if all, err = c.l.LockAll(ctx, []string{"a", "b", "c"}, wait); err == nil {
			c.pause(time.Second)
			err = all.Unlock(parent)
		}
	case 6:
		m, _ := c.l.Limiter([]int64{3, 3000}[c.rng.IntN(2)], 5*time.Second)
		err = m.Wait(ctx, name, wait)
	case 7:
		return c.l.Do(ctx, name, func(ctx context.Context) error { c.pause(time.Second); return ctx.Err() }, wait)
	case 8:
		lease, err = c.l.Lock(ctx, name, wait, distlock.NoRenewal())
	}
	if err != nil || lease == nil {
		return err
	}
	return c.hold(parent, lease)
}

// hold does something random with a lease.
func (c *client) hold(ctx context.Context, lease *distlock.Lease) error {
	c.pause(2 * time.Second)
	switch c.rng.IntN(8) {
	case 0:
		return nil // the lease is not released, and ends with its MaxHold or with the Locker
	case 1:
		h, err := lease.Detach(ctx)
		if err != nil {
			return err
		}
		if lease, err = c.l.Attach(ctx, h); err != nil {
			return err
		}
	case 2:
		if lease.Mode() == distlock.ModeExclusive {
			reader, err := lease.Downgrade(ctx)
			if err != nil {
				return err
			}
			lease = reader
		}
	case 3:
		_ = lease.Extend(ctx, 4*time.Second)
	case 4:
		_, _ = driver.Break(ctx, c.store, lease.Name(), 0, "a test")
	case 5:
		<-lease.Done()
	}
	_ = lease.Unlock(ctx)
	return lease.Unlock(ctx)
}
