package guarantees_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

var cutCount = flag.Int("cuts", 60,
	"number of replies that TestCut cuts off, at least 200 on Redis; make nightly has 1,000")

// Replies are cut off at random bytes, on the links to a majority of the servers. On Redis some are
// dropped completely. A locker never waits for its own claim, a grant has one fence, a release with
// an unknown outcome is reported, and fences rise.
func TestCut(t *testing.T) {
	t.Parallel()
	onClient := func(name string) func(t *testing.T) *site {
		return func(t *testing.T) *site { return onRedis(testenv.Redis(t), clients[name]) }
	}
	for name, tt := range map[string]struct {
		start func(t *testing.T) *site
		reply int // the approximate size of the longest answer, in bytes
	}{
		"redis, rueidis":  {onClient("rueidis"), 48},
		"redis, go-redis": {onClient("goredis"), 48},
		"redlock":         {func(t *testing.T) *site { return onNodes(t, 3, time.Minute) }, 72},
		"postgres":        {func(t *testing.T) *site { return shared(t, "postgres") }, 400},
		"mariadb":         {func(t *testing.T) *site { return shared(t, "mariadb") }, 120},
		"advisory":        {func(t *testing.T) *site { return shared(t, "advisory") }, 60},
		"remote":          {sites["remote"], 300},
		"etcd":            {func(t *testing.T) *site { return shared(t, "etcd") }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newCutter(t, tt.start(t)).play(tt.reply)
		})
	}
}

// A cutter acquires and releases one name after the other over a link that fails. A rival with a
// good link checks that the names are free.
type cutter struct {
	t        testing.TB
	redis    *testenv.RedisServer // the only server, if it is a Redis server
	l, rival *distlock.Locker
	link     links
	ttl      time.Duration

	rounds, grants, unavailable, again, seen int
	unknown                                  map[string]bool // names that may be left locked
}

func newCutter(t *testing.T, s *site) *cutter {
	const ttl = 30 * time.Second
	linked, link := s.through(t)
	c := &cutter{t: t, l: locker(t, linked, distlock.TTL(ttl)), link: link, ttl: ttl,
		rival: locker(t, s.store(t), distlock.TTL(ttl)), unknown: map[string]bool{}}
	if len(s.redis) == 1 {
		c.redis = s.redis[0]
	}
	unlock(t, persist(t, c.l, "warm")) // loads the scripts
	return c
}

// play cuts off replies of up to so many bytes.
func (c *cutter) play(reply int) {
	t, rng := c.t, chance(c.t)
	cuts, grants, seen := *cutCount, *cutCount/2, *cutCount/2 // the last two at least
	if c.redis != nil {
		cuts = max(cuts, 200)
		grants, seen = cuts, cuts/8
	}
	for cut := range cuts {
		var fired []<-chan struct{}
		for _, i := range rng.Perm(len(c.link))[:len(c.link)/2+1] {
			if c.redis != nil && cut%4 == 0 {
				fired = append(fired, c.link[i].EatReply([]byte(fmt.Sprintf("lock:key %d\r", c.rounds))))
			} else {
				fired = append(fired, c.link[i].CutAfter(rng.IntN(reply)))
			}
		}
		for len(fired) > 0 {
			c.round()
			fired = slices.DeleteFunc(fired, func(f <-chan struct{}) bool {
				select {
				case <-f:
					return true
				default:
					return false
				}
			})
		}
		if t.Failed() {
			t.Fatalf("at cut %d", cut)
		}
	}
	t.Logf("%d cuts in %d rounds: %d granted, %d unavailable, %d unknown, %d releases repeated; claims left %d, all of unknown outcome",
		cuts, c.rounds, c.grants, c.unavailable, len(c.unknown), c.again, c.leftovers())
	if c.grants < grants || c.seen < seen {
		t.Errorf("%d grants, %d names seen free: too few for a result", c.grants, c.seen)
	}
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
		c.unknown[name] = true
		return // a lock may be left, and the error says so
	case errors.Is(err, distlock.ErrUnavailable):
		c.unavailable++
		c.free(name)
		return
	default:
		t.Errorf("%s: %v", name, err)
		return
	}
	c.grants++
	c.held(lease)
	err = lease.Unlock(t.Context())
	for try := 1; troubled(err); try++ {
		if try > 5 {
			t.Errorf("%s: released %d times: %v", name, try, err)
			return
		}
		c.again++
		err = lease.Unlock(t.Context())
	}
	// An advisory lock ends with its connection, so it may have ended before the release. On Redis
	// no lease is lost.
	if err != nil && (c.redis != nil || !errors.Is(err, distlock.ErrLost)) {
		t.Errorf("%s: Unlock: %v", name, err)
		return
	}
	if c.redis != nil && c.rounds%4 != 0 {
		return // see leftovers, which checks all names
	}
	if next, ok := c.free(name); ok && next <= lease.Fence() {
		t.Errorf("%s: fence %d after %d", name, next, lease.Fence())
	}
}

// held checks a lease, and on Redis what the store has of it.
func (c *cutter) held(lease *distlock.Lease) {
	t, name := c.t, lease.Name()
	t.Helper()
	if lease.Fence() == 0 {
		t.Errorf("%s: no fence", name)
	}
	if c.redis == nil {
		return
	}
	text, _ := do(t, c.redis, "GET", "{lock:"+name+"}:m").(string)
	last, _, _ := strings.Cut(text, "\n")
	if last != strconv.FormatUint(lease.Fence(), 10) {
		t.Errorf("%s: the lease has fence %d, but the store issued %s: a lost answer used up a fence",
			name, lease.Fence(), last)
	}
	if left := c.left(name); left <= 0 || left > c.ttl {
		t.Errorf("%s: held, but the store has a TTL of %v", name, left)
	}
}

// free checks that a name is free for the rival, and returns the fence of the rival's grant. If a
// busy server does not answer the rival, ok is false.
func (c *cutter) free(name string) (fence uint64, ok bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.ttl/3)
	defer cancel()
	lease, err := c.rival.Lock(ctx, name)
	switch {
	case err == nil:
		unlock(c.t, lease)
		c.seen++
		return lease.Fence(), true
	case !troubled(err):
		c.t.Errorf("%s is left, and no error reported it: %v", name, err)
	}
	return 0, false
}

// leftovers checks that only claims with a reported unknown outcome are left in Redis, for at most
// their TTL.
func (c *cutter) leftovers() (n int) {
	for i := 0; c.redis != nil && i < c.rounds; i++ {
		name := fmt.Sprint("key ", i)
		switch left := c.left(name); {
		case left == -2*time.Millisecond: // there is no key
		case !c.unknown[name]:
			c.t.Errorf("%s is left, and no error reported it", name)
		case left < 0 || left > c.ttl:
			c.t.Errorf("%s is left for %v", name, left)
		default:
			n++
		}
	}
	return n
}

// left returns the remaining TTL of a claim in Redis, as PTTL returns it.
func (c *cutter) left(name string) time.Duration {
	c.t.Helper()
	return time.Duration(do(c.t, c.redis, "PTTL", "lock:"+name).(int64)) * time.Millisecond
}
