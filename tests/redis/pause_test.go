package redis_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	stores "github.com/distlock/distlock/open"
)

// The server stops for longer than the TTL: the holder is told before anybody else is granted, and when the server goes on,
// so do all.
func TestPause_server(t *testing.T) {
	t.Parallel()
	for name, open := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl, rounds = time.Second, 3
			srv := testenv.Redis(t)
			a, b := locker(t, open(t, srv.Addr), distlock.TTL(ttl)), locker(t, open(t, srv.Addr), distlock.TTL(ttl))
			var f fences
			for range rounds {
				first := persist(t, a, "key")
				f.rise(t, first)
				next := wait(t, b, "key")
				trusted := watch(first)
				srv.Pause()
				paused := time.Now()
				trusted.over(t, soon)
				told := trusted.last.Sub(paused)
				time.Sleep(time.Until(paused.Add(ttl + 300*time.Millisecond)))
				clock := testenv.NewStopwatch(t)
				srv.Resume()
				g := granted(t, next, 3*soon)
				again := clock.Elapsed()
				f.rise(t, g.lease)
				overlap := trusted.last.Sub(g.at)
				if overlap > 0 {
					t.Errorf("two holders for %v", overlap)
				}
				if told > ttl {
					t.Errorf("held for %v after the server stopped, longer than the TTL of %v", told, ttl)
				}
				if again > ttl+2*time.Second {
					t.Errorf("the next grant came %v after the server went on", again)
				}
				giveBack(t, g.lease)
				t.Logf("held for %v after the server stopped; overlap %v; granted %v after it went on",
					told.Round(time.Millisecond), overlap.Round(time.Millisecond), again.Round(time.Millisecond))
			}
		})
	}
}

// The holder stops for longer than its TTL, between looking at a register and writing to it. Its first look at the lease
// afterwards shows the loss. If it does not look, a register that compares fences refuses the write, and one that
// does not loses the update of the next holder.
func TestPause_holder(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		srv := testenv.Redis(t)
		pauses(t, srv.Addr, open(t, srv.Addr), testenv.URL("redis", srv.Addr))
	})
	t.Run("redlock", func(t *testing.T) {
		t.Parallel()
		var addrs []string
		for range 3 {
			addrs = append(addrs, testenv.Redis(t).Addr)
		}
		pauses(t, testenv.Redis(t).Addr, redlock(t, time.Minute, addrs...), testenv.URL("redlock", addrs...))
	})
}

// pauses stops a holder again and again. It opens the store by its URL, and the registers are on a server, which may be the store's.
func pauses(t *testing.T, registers string, s driver.Store, url string) {
	const ttl, rounds = 400 * time.Millisecond, 10
	h := testenv.Helper(t, "holder", registers, url)
	rival := locker(t, s, distlock.TTL(10*time.Second))
	c := goclient.NewClient(&goclient.Options{Addr: registers})
	t.Cleanup(func() { c.Close() })
	taken, lost := 0, 0 // fenced writes, plain updates
	for range rounds {
		h.Say(fmt.Sprint("take ", ttl.Milliseconds()))
		if line := h.Line(); line != "read" {
			t.Fatalf("the holder says %q", line)
		}
		h.Pause()
		h.Say("act")

		next := persist(t, rival, "key")
		r, err := readRegisters(t.Context(), c, next.Fence())
		if err == nil {
			err = r.write(t.Context(), c, next.Fence())
		}
		if err != nil || r.fenced != "yes" {
			t.Fatalf("the next holder's writes: %+v, %v", r, err)
		}
		taken++
		giveBack(t, next)
		h.Resume()
		if line := h.Line(); line != "lease lost, context lost, fenced no, plain yes" {
			t.Errorf("the holder that was stopped says %q", line)
		}
		after, err := readRegisters(t.Context(), c, next.Fence())
		if err != nil {
			t.Fatal(err)
		}
		if after.plainSaw != r.plainSaw+2 {
			lost++ // two wrote what they had read and one more
		}
		if after.fencedSaw != r.fencedSaw+1 {
			t.Errorf("the fenced register went from %d to %d", r.fencedSaw, after.fencedSaw)
		}
	}
	if lost == 0 {
		t.Error("the plain register lost nothing: this shows nothing")
	}
	t.Logf("%d pauses: %d first looks refused, fenced updates lost 0 of %d, plain updates lost %d of %d", rounds, rounds, taken, lost, 2*rounds)
}

// registers is what a holder read of the two registers, and what became of its writes.
type registers struct {
	fencedSaw, plainSaw int64
	fenced, plain       string
}

// guard is a register that takes nothing from those whose fence is lower than one it has seen. A read counts too: without that a
// holder could write between the read and the write of the next one.
const guard = `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then return 'no' end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if ARGV[2] == '' then return redis.call('HGET', KEYS[1], 'value') or '0' end
redis.call('HSET', KEYS[1], 'value', ARGV[2])
return 'yes'`

func readRegisters(ctx context.Context, c *goclient.Client, fence uint64) (r registers, err error) {
	saw, err := c.Eval(ctx, guard, []string{"fenced"}, fence, "").Text()
	if err != nil {
		return r, err
	}
	if r.fencedSaw, err = strconv.ParseInt(saw, 10, 64); err != nil {
		return r, err
	}
	if r.plainSaw, err = c.Get(ctx, "plain").Int64(); err == goclient.Nil { //nolint:errorlint // it is never wrapped
		err = nil
	}
	return r, err
}

// write writes one more than was read.
func (r *registers) write(ctx context.Context, c *goclient.Client, fence uint64) (err error) {
	if r.fenced, err = c.Eval(ctx, guard, []string{"fenced"}, fence, r.fencedSaw+1).Text(); err != nil {
		return err
	}
	r.plain = "yes"
	return c.Set(ctx, "plain", r.plainSaw+1, 0).Err()
}

// playHolder takes the lock and reads, and when it is told to act, looks at its lease and writes whatever that says.
func playHolder(args []string) int {
	ctx := context.Background()
	s, err := stores.Open(ctx, args[1])
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	l, err := distlock.New(s.Store)
	if err != nil {
		return fail(err)
	}
	c := goclient.NewClient(&goclient.Options{Addr: args[0], MaxRetries: -1})
	defer c.Close()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		ms, err := strconv.Atoi(strings.TrimPrefix(in.Text(), "take "))
		if err != nil {
			return fail(err)
		}
		ttl := distlock.TTL(time.Duration(ms) * time.Millisecond)
		lease, err := l.Lock(ctx, "key", ttl)
		for errors.Is(err, distlock.ErrUnavailable) || errors.Is(err, distlock.ErrUnknown) { // busy nodes may not answer in time
			lease, err = l.Lock(ctx, "key", ttl)
		}
		if err != nil {
			return fail(err)
		}
		work := lease.Context(ctx)
		r, err := readRegisters(ctx, c, lease.Fence())
		if err != nil {
			return fail(err)
		}
		fmt.Println("read")
		in.Scan()
		first, second := lease.Err(), work.Err()
		if err := r.write(ctx, c, lease.Fence()); err != nil {
			return fail(err)
		}
		fmt.Printf("lease %s, context %s, fenced %s, plain %s\n", state(first), state(second), r.fenced, r.plain)
		_ = lease.Unlock(ctx)
	}
	return 0
}

func state(err error) string {
	if err == nil {
		return "held"
	}
	return "lost"
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
