package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/workload"
)

// perLink is the number of goroutines that use one link: two, so that locks are handed off in
// memory too.
const perLink = 2

// A group is one link to the store, and the clients that use it. To the store it is one process,
// and in the history it is one client.
type group struct {
	plan   *Plan
	name   string // of its holds
	prefix string // of its keys
	start  time.Time
	rec    *history.Recorder
	link   *chaos.Store
	locker *distlock.Locker
}

// join creates a group. The plan calls it who, the history calls it name.
func join(store driver.Store, p *Plan, who, name, prefix string, start time.Time, rec *history.Recorder) (*group, error) {
	g := &group{plan: p, name: name, prefix: prefix, start: start, rec: rec}
	g.link = chaos.New(store, &chaos.Options{
		Name: name,
		Plan: chaos.Plan{
			Seed: p.Seed, Chance: p.Links[who].chances(), Delay: p.TTL,
			Calm: max(p.calm()-time.Since(start), 1),
		},
		Timeout: p.TTL / 2,
		Observe: func(f chaos.Fault) {
			if f.Kind != chaos.CutOff { // the run reports its cuts itself
				rec.Fault(name, f.Kind.String(), f.From, f.To)
			}
		},
	})
	var err error
	g.locker, err = distlock.New(g.link, distlock.TTL(p.TTL), distlock.Holder("torture "+name))
	if err != nil {
		g.link.Close()
	}
	return g, err
}

// play starts the clients, which acquire locks until ctx ends.
func (g *group) play(ctx context.Context, wg *sync.WaitGroup) {
	for n := range perLink {
		wg.Go(func() { g.client(n).loop(ctx) })
	}
}

// leave releases everything, as far as the link allows it.
func (g *group) leave() {
	_ = g.locker.Close(context.Background()) // on a bad link Close may fail
	g.link.Close()
}

// A client acquires and releases locks.
type client struct {
	*group
	rng *rand.Rand
}

func (g *group) client(n int) *client {
	return &client{g, g.plan.draws(fmt.Sprintf("client %d of %s", n, g.name))}
}

// loop acquires locks until ctx ends.
func (c *client) loop(ctx context.Context) {
	for c.sleep(ctx, c.upTo(2*c.plan.think())) {
		if c.rng.IntN(3) == 0 {
			c.raw(ctx)
		} else {
			c.hold(ctx)
		}
	}
}

// upTo draws a duration.
func (c *client) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(d) + 1))
}

// sleep waits for d, and reports whether ctx is still active.
func (c *client) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}

// key draws one of the keys that are in use now.
func (c *client) key() string {
	return fmt.Sprintf("%s%d/%d", c.prefix, time.Since(c.start)/c.plan.round(), c.rng.IntN(c.plan.Keys))
}

// hold acquires a lock with a random method, works under it and releases it.
func (c *client) hold(ctx context.Context) {
	want := history.Want{Client: c.name, Key: c.key(), TTL: c.plan.TTL, Weight: driver.Whole, Limit: driver.Whole}
	take := c.locker.Lock
	switch n := c.rng.IntN(10); {
	case n < 2:
		want.Weight, take = 1, c.locker.RLock
	case n < 3:
		take = c.locker.TryLock
	}
	waiting, cancel := ctx, func() {}
	if c.rng.IntN(2) == 0 {
		waiting, cancel = context.WithTimeout(ctx, c.upTo(c.plan.TTL/2))
	}
	defer cancel()

	began := time.Now()
	h := c.rec.Acquire(want)
	o := &workload.Scribe{Hold: h}
	lease, err := take(waiting, want.Key, distlock.Observe(o.Observe))
	if err != nil {
		workload.Ended(waiting, h, err)
		return
	}
	h.Granted(lease.Fence(), workload.Trust(lease, began))
	o.Follow(lease)
	select {
	case <-lease.Done():
	case <-time.After(c.work()):
	}
	if lease.Err() == nil {
		h.Trusted()
	} else {
		h.Lost()
	}
	release := h.Release()
	release.End(workload.Outcome(lease.Unlock(context.WithoutCancel(ctx))))
}

// work draws how long a lock is held: a short time, or sometimes long enough to need renewals.
func (c *client) work() time.Duration {
	if c.rng.IntN(25) == 0 {
		return c.upTo(c.plan.TTL * 3 / 2)
	}
	return c.upTo(20 * time.Millisecond)
}
