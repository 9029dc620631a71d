package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// Replies are cut off at random bytes, or swallowed whole. A locker never waits for itself, a grant has one fence, and what
// is not known to be given back is told.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const cuts, ttl = 200, 30 * time.Second
			rng := chance(t)
			srv := testenv.Redis(t)
			proxy := testenv.Proxy(t, srv.Addr)
			c := &cutter{t: t, srv: srv, l: locker(t, open(t, proxy.Addr), distlock.TTL(ttl)), ttl: ttl, doubtful: map[string]bool{}}
			lock(t, c.l, "warm") // the scripts are known
			for cut := range cuts {
				var fired <-chan struct{}
				if cut%4 == 0 {
					fired = proxy.EatReply([]byte(fmt.Sprintf("lock:key %d\r", c.rounds)))
				} else {
					fired = proxy.CutAfter(rng.IntN(48)) // an acquire is answered by 24 bytes, a release by 6
				}
				for done := false; !done; {
					c.round()
					select {
					case <-fired:
						done = true
					default:
					}
				}
				if t.Failed() {
					t.Fatalf("at cut %d", cut)
				}
			}
			left := c.leftovers()
			t.Logf("%d cuts in %d rounds: %d granted, %d unavailable, %d unknown, %d releases asked for twice; claims left %d, all in doubt",
				cuts, c.rounds, c.grants, c.unavailable, c.unknown, c.again, left)
			if c.grants < cuts {
				t.Errorf("%d grants: too few to mean anything", c.grants)
			}
		})
	}
}

// A cutter takes and gives back one name after the other over a link that fails.
type cutter struct {
	t   testing.TB
	srv *testenv.RedisServer
	l   *distlock.Locker
	ttl time.Duration

	rounds, grants, unavailable, unknown, again int
	doubtful                                    map[string]bool // names that may be left taken
}

func (c *cutter) round() {
	t := c.t
	t.Helper()
	name := fmt.Sprint("key ", c.rounds)
	c.rounds++
	ctx, cancel := context.WithTimeout(t.Context(), c.ttl/3) // who waits for itself waits for longer
	defer cancel()
	lease, err := c.l.Lock(ctx, name)
	switch {
	case err == nil:
	case errors.Is(err, distlock.ErrUnknown):
		c.unknown++
		c.doubtful[name] = true
		return
	case errors.Is(err, distlock.ErrUnavailable):
		c.unavailable++
		return
	default:
		t.Errorf("%s: %v", name, err)
		return
	}
	c.grants++
	last, _ := do(t, c.srv, "HGET", "{lock:"+name+"}:c", "last").(string)
	if last != strconv.FormatUint(lease.Fence(), 10) {
		t.Errorf("%s: the lease has fence %d, and the store gave out %s: a lost answer cost another", name, lease.Fence(), last)
	}
	if left := do(t, c.srv, "PTTL", "lock:"+name).(int64); left <= 0 || left > c.ttl.Milliseconds() {
		t.Errorf("%s: held, and the store says %d ms", name, left)
	}
	err = lease.Unlock(t.Context())
	for try := 1; errors.Is(err, distlock.ErrUnknown) || errors.Is(err, distlock.ErrUnavailable); try++ {
		if try > 5 {
			t.Errorf("%s: released %d times: %v", name, try, err)
			return
		}
		c.again++
		err = lease.Unlock(t.Context())
	}
	if err != nil {
		t.Errorf("%s: Unlock: %v", name, err)
	}
}

// leftovers checks that only what was told to be in doubt is left, and not for longer than its TTL.
func (c *cutter) leftovers() (left int) {
	for i := range c.rounds {
		name := fmt.Sprint("key ", i)
		switch ms := do(c.t, c.srv, "PTTL", "lock:"+name).(int64); {
		case ms == -2:
		case !c.doubtful[name]:
			c.t.Errorf("%s is left, and nobody was told", name)
		case ms < 0 || ms > c.ttl.Milliseconds():
			c.t.Errorf("%s is left for %d ms", name, ms)
		default:
			left++
		}
	}
	return left
}
