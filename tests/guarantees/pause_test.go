package guarantees_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// The server stops for longer than the TTL. The holder is notified before another process gets the
// lock. When the server continues, the lockers work again.
func TestPause_server(t *testing.T) {
	t.Parallel()
	starts := map[string]func(t *testing.T) *site{"remote": sites["remote"]}
	for name, open := range clients {
		starts[name] = func(t *testing.T) *site { return onRedis(testenv.Redis(t), open) }
	}
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl, rounds = time.Second, 3
			s := start(t)
			srv := s.servers()[0]
			a := locker(t, s.store(t), distlock.TTL(ttl))
			b := locker(t, s.store(t), distlock.TTL(ttl))
			sc := newScene(t)
			for range rounds {
				first, next := sc.lock("a", a), sc.wait("b", b)
				trusted := watch(first.Lease)
				srv.Pause()
				paused := time.Now()
				trusted.lost(t, soon)
				heldFor := trusted.last.Sub(paused)
				time.Sleep(time.Until(paused.Add(ttl + 300*time.Millisecond)))
				clock := testenv.NewStopwatch(t)
				srv.Resume()
				second := sc.patient(next, 3*soon)
				again := clock.Elapsed()
				overlap := trusted.last.Sub(second.at)
				if overlap > 0 {
					t.Errorf("two holders for %v", overlap)
				}
				if heldFor > ttl {
					t.Errorf("held for %v after the server stopped, longer than the TTL of %v", heldFor, ttl)
				}
				if again > ttl+2*time.Second {
					t.Errorf("the next grant came %v after the server continued", again)
				}
				sc.lost(first, soon)
				sc.release(second)
				t.Logf("held for %v after the server stopped; overlap %v; granted %v after it continued",
					heldFor.Round(time.Millisecond), overlap.Round(time.Millisecond),
					again.Round(time.Millisecond))
			}
			sc.oneHolder()
		})
	}
}

// The holder stops for longer than its TTL, between reading a register and writing to it. Its first
// check of the lease afterwards shows the loss. If the holder does not check, a register that
// compares fences refuses the write, and a plain register loses the update of the next holder.
func TestPause_holder(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *site{
		"remote":  sites["remote"],
		"redis":   sites["redis"],
		"mariadb": sites["mariadb"],
		"redlock": func(t *testing.T) *site { return onNewNodes(t, 3, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pauses(t, start(t))
		})
	}
}

// pauses stops a holder again and again. The registers are on a server of their own.
func pauses(t *testing.T, s *site) {
	const ttl, rounds = 400 * time.Millisecond, 10
	registers := testenv.Redis(t).Addr
	h := testenv.Helper(t, "holder", registers, s.url)
	rival := locker(t, s.store(t), distlock.TTL(10*time.Second))
	c := goclient.NewClient(&goclient.Options{Addr: registers})
	t.Cleanup(func() { c.Close() })
	taken, lost := 0, 0 // fenced writes, plain updates
	for range rounds {
		h.Say(fmt.Sprint("take ", ttl.Milliseconds()))
		if line := h.Line(); line != "read" {
			t.Fatalf("the holder printed %q", line)
		}
		h.Pause()
		h.Say("act")

		next := persist(t, rival, "key")
		r, err := readRegisters(t.Context(), c, next.Fence())
		if err == nil {
			err = r.write(t.Context(), c, next.Fence())
		}
		if err != nil || r.fenced != "yes" {
			t.Fatalf("writes of the next holder: %+v, %v", r, err)
		}
		taken++
		release(t, next)
		h.Resume()
		if line := h.Line(); line != "lease lost, context lost, fenced no, plain yes" {
			t.Errorf("the stopped holder printed %q", line)
		}
		after, err := readRegisters(t.Context(), c, next.Fence())
		if err != nil {
			t.Fatal(err)
		}
		if after.plainSaw != r.plainSaw+2 {
			lost++ // both wrote the value that they had read plus one
		}
		if after.fencedSaw != r.fencedSaw+1 {
			t.Errorf("the fenced register went from %d to %d", r.fencedSaw, after.fencedSaw)
		}
	}
	if lost == 0 {
		t.Error("the plain register lost no update: this shows nothing")
	}
	t.Logf("%d pauses: %d first checks failed, fenced updates lost 0 of %d, plain updates lost %d of %d", rounds, rounds, taken, lost, 2*rounds)
}

// registers holds the values that a holder read from the two registers, and the results of its
// writes.
type registers struct {
	fencedSaw, plainSaw int64
	fenced, plain       string
}

// guard is a register that refuses calls with a fence lower than one it has seen. It also checks
// reads. Otherwise a holder could write between the read and the write of the next one.
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

// write writes the read values plus one.
func (r *registers) write(ctx context.Context, c *goclient.Client, fence uint64) (err error) {
	r.fenced, err = c.Eval(ctx, guard, []string{"fenced"}, fence, r.fencedSaw+1).Text()
	if err != nil {
		return err
	}
	r.plain = "yes"
	return c.Set(ctx, "plain", r.plainSaw+1, 0).Err()
}

// playHolder is a process that takes the lock and reads. At the next line of input it checks its
// lease and then writes in any case.
func playHolder(args []string) int {
	ctx := context.Background()
	s, err := open.Open(ctx, args[1])
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
		// Busy nodes may not answer in time.
		for troubled(err) {
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
		fmt.Printf("lease %s, context %s, fenced %s, plain %s\n", state(first), state(second),
			r.fenced, r.plain)
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
