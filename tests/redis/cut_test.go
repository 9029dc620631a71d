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

// Replies are cut off at random bytes, or dropped completely. A locker never waits for its own
// claim, a grant has one fence, and a release with an unknown outcome is reported.
func TestCut(t *testing.T) {
	t.Parallel()
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const cuts, ttl = 200, 30 * time.Second
			rng := chance(t)
			srv := testenv.Redis(t)
			proxy := testenv.Proxy(t, srv.Addr)
			c := &cutter{t: t, srv: srv, l: locker(t, open(t, proxy.Addr), distlock.TTL(ttl)), ttl: ttl,
				doubtful: map[string]bool{}}
			lock(t, c.l, "warm") // loads the scripts
			for cut := range cuts {
				var fired <-chan struct{}
				if cut%4 == 0 {
					fired = proxy.EatReply([]byte(fmt.Sprintf("lock:key %d\r", c.rounds)))
				} else {
					fired = proxy.CutAfter(rng.IntN(48)) // the reply to an acquire has 24 bytes, to a release 6
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
			t.Logf("%d cuts in %d rounds: %d granted, %d unavailable, %d unknown, %d releases repeated; claims left %d, all of unknown outcome",
				cuts, c.rounds, c.grants, c.unavailable, c.unknown, c.again, left)
			if c.grants < cuts {
				t.Errorf("%d grants: too few for a result", c.grants)
			}
		})
	}
}

// A cutter acquires and releases one name after the other over a link that fails.
type cutter struct {
	t   testing.TB
	srv *testenv.RedisServer
	l   *distlock.Locker
	ttl time.Duration

	rounds, grants, unavailable, unknown, again int
	doubtful                                    map[string]bool // names that may be left locked
}

func (c *cutter) round() {
	t := c.t
	t.Helper()
	name := fmt.Sprint("key ", c.rounds)
	c.rounds++
	// A call that waits for its own claim takes longer.
	ctx, cancel := context.WithTimeout(t.Context(), c.ttl/3)
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
		t.Errorf("%s: the lease has fence %d, but the store issued %s: a lost answer used up a fence",
			name, lease.Fence(), last)
	}
	if left := do(t, c.srv, "PTTL", "lock:"+name).(int64); left <= 0 || left > c.ttl.Milliseconds() {
		t.Errorf("%s: held, but the store has a TTL of %d ms", name, left)
	}
	err = lease.Unlock(t.Context())
	for try := 1; errors.Is(err, distlock.ErrUnknown) ||
		errors.Is(err, distlock.ErrUnavailable); try++ {
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

// leftovers checks that only claims with a reported unknown outcome are left, for at most their
// TTL.
func (c *cutter) leftovers() (left int) {
	for i := range c.rounds {
		name := fmt.Sprint("key ", i)
		switch ms := do(c.t, c.srv, "PTTL", "lock:"+name).(int64); {
		case ms == -2:
		case !c.doubtful[name]:
			c.t.Errorf("%s is left, and no error reported it", name)
		case ms < 0 || ms > c.ttl.Milliseconds():
			c.t.Errorf("%s is left for %d ms", name, ms)
		default:
			left++
		}
	}
	return left
}
