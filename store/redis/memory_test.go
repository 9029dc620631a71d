package redis_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

func TestStore_leftovers(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := adapters["rueidis"](t, login{addr: srv.Addr})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 10_000
	if testing.Short() {
		n = 500
	}
	for i := range n {
		key := rand.Text()
		a, b := exclusive(key), shared(key)
		a.TTL = []time.Duration{10 * time.Second, time.Minute, 24 * time.Hour}[i%3]
		grant(t, s, a)
		if i%10 == 0 {
			b.QueueTTL = time.Minute
			driver.Watch(ctx, s, b.ID)
			refuse(t, s, b)
			if _, err := s.Break(t.Context(), key, 0, "test"); err != nil {
				t.Fatal(err)
			}
			grant(t, s, b)
			a = b
		}
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
	}
	left := do(t, srv, "EVAL", `
local worst, keys = 0, redis.call('KEYS', '*')
for _, k in ipairs(keys) do
  local left = redis.call('PTTL', k)
  if string.sub(k, -2) ~= ':b' and k ~= ARGV[1] then -- the reason of a Break is kept until the claim would have ended, and the floor for ever
    if left < 0 then return 'no expiry: ' .. k end
    worst = math.max(worst, left)
  end
end
return worst`, "0", floorKey)
	if ms, ok := left.(int64); !ok || ms > 600_001 {
		t.Errorf("the last Redis key expires in %v ms, want ten minutes at most", left)
	}
}

// The last fence of a key that is granted again and again is remembered for ten minutes. After a
// release that hands the key over it may be ten seconds less: the first one of ten seconds gives
// the memory ten minutes more.
func TestStore_remembers(t *testing.T) {
	t.Parallel()
	const memory, period = "{lock:key}:m", 10_000_000 // µs
	srv := testenv.Redis(t)
	s := adapters["rueidis"](t, login{addr: srv.Addr})
	a, w := exclusive("key"), exclusive("key")
	w.QueueTTL = time.Minute
	release := func(r driver.Request) {
		t.Helper()
		if err := s.Release(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	last := func() int64 {
		t.Helper()
		n, err := strconv.ParseInt(strings.Fields(do(t, srv, "GET", memory).(string))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rewrite := func(fence int64) {
		t.Helper()
		text := do(t, srv, "GET", memory).(string)
		do(t, srv, "SET", memory, fmt.Sprint(fence)+text[strings.IndexAny(text, " \n"):])
	}
	life := func(want bool, how string) {
		t.Helper()
		if left := do(t, srv, "PTTL", memory).(int64); (left > 450_000) != want {
			t.Errorf("%s: the memory lives for %d ms; prolonged: want %v", how, left, want)
		}
	}
	grant(t, s, a)
	life(true, "the first grant")
	refuse(t, s, w)
	for _, old := range []bool{false, true} {
		before := last()
		if old {
			before -= period
			rewrite(before)
		}
		do(t, srv, "PEXPIRE", memory, "300000")
		release(a)
		life(before/period != last()/period, "handed on")
		a, w = w, a
		a.QueueTTL, w.QueueTTL = 0, time.Minute
		refuse(t, s, w)
	}
	release(a)
	release(w)
	for _, old := range []bool{false, true} {
		before := last()
		if old {
			before -= period
			rewrite(before)
		}
		do(t, srv, "PEXPIRE", memory, "300000")
		grant(t, s, a)
		life(true, "granted")
		release(a)
	}
}

// A new queue entry does not shorten the life of an entry before it, also where the last fence is
// far ahead of the clock.
func TestStore_longEntry(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	s := adapters["rueidis"](t, login{addr: srv.Addr})
	a, long, short := exclusive("key"), exclusive("key"), exclusive("key")
	a.Floor = uint64(time.Now().Add(50 * time.Minute).UnixMicro())
	long.QueueTTL, short.QueueTTL = 55*time.Minute, time.Minute
	grant(t, s, a)
	refuse(t, s, long)
	refuse(t, s, short)
	for _, key := range []string{"{lock:key}:z", "{lock:key}:c", "{lock:key}:m"} {
		if left := do(t, srv, "PTTL", key).(int64); left < long.QueueTTL.Milliseconds() {
			t.Errorf("%s lives for %d ms, and a queue entry in it for 55 minutes", key, left)
		}
	}
}
