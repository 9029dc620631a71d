package redis_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	goclient "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
)

// capped limits TTLs to 100 years: miniredis counts in nanoseconds, and more would overflow. The
// same rules use longer TTLs on real servers.
type capped struct {
	*redis.Store
	server *miniredis.Miniredis
}

// floorKey is the one Redis key that all names share.
const floorKey = "{lock:}:floor"

const century = 100 * 365 * 24 * time.Hour

func (c capped) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	r.TTL, r.QueueTTL = min(r.TTL, century), min(r.QueueTTL, century)
	return c.Store.Acquire(ctx, r)
}

func (c capped) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	r.TTL = min(r.TTL, century)
	return c.Store.Renew(ctx, r)
}

// virtual opens a store on a Redis in memory, in virtual time.
func virtual() drivertest.Env { return hooked(nil) }

// hooked is virtual with a hook on the client, unless that is nil.
func hooked(hook func(*redis.Store) goclient.Hook) drivertest.Env {
	return drivertest.Env{
		Virtual: true,
		Many:    200, // real servers get more
		Open: func(t testing.TB) driver.Store {
			m := miniredis.NewMiniRedis()
			m.ClockTTL(true)
			t.Cleanup(m.Close)
			c := goclient.NewClient(&goclient.Options{
				Addr:                     "127.0.0.1:1", // go-redis looks names up; it is not dialled
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
				Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
			})
			t.Cleanup(func() { c.Close() })
			s := made(t)(goredisstore.New(c, nil))
			if hook != nil {
				c.AddHook(hook(s))
			}
			return capped{s, m}
		},
		Leftovers: func(_ testing.TB, s driver.Store) int {
			return len(slices.DeleteFunc(s.(capped).server.Keys(),
				func(key string) bool { return key == floorKey }))
		},
	}
}

func TestStore_virtual(t *testing.T) { drivertest.Run(t, virtual()) }

func TestStore_virtual_compared(t *testing.T) { drivertest.Compare(t, virtual()) }

// Each call that may be merged is a part of a command: the call of another name is before it.
func TestStore_virtual_merged(t *testing.T) {
	var done, alone atomic.Int64
	merge := func(s *redis.Store) goclient.Hook { return merger{s.Merges(), &done, &alone} }
	t.Run("rules", func(t *testing.T) { drivertest.Run(t, hooked(merge)) })
	t.Run("compared", func(t *testing.T) { drivertest.Compare(t, hooked(merge)) })
	// The name is free, since its holder died, and somebody waits for it.
	t.Run("queue", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := hooked(merge).Open(t)
			acquire := func(owner string, queueTTL time.Duration) driver.Result {
				t.Helper()
				res, err := s.Acquire(t.Context(), driver.Request{ID: driver.ID{Key: "key", Owner: owner},
					Weight: driver.Whole, Limit: driver.Whole, TTL: time.Second, QueueTTL: queueTTL})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			first := acquire("dead", 0)
			acquire("waits", time.Minute)
			time.Sleep(2 * time.Second)
			if res := acquire("comes later", 0); res.Granted || res.Ahead != 1 {
				t.Errorf("a later attempt: %+v", res)
			}
			if res := acquire("waits", time.Minute); !res.Granted || res.Fence < first.Fence+driver.Span {
				t.Errorf("the waiter: %+v after %+v", res, first)
			}
		})
	})
	t.Cleanup(func() {
		if done.Load() < 1000 || alone.Load() < 100 {
			t.Errorf("%d calls were done as a part, %d were sent by themselves", done.Load(), alone.Load())
		}
	})
}

// A merger sends calls as a client does that merges them: see [redis.Call].
type merger struct {
	args        map[string]int
	done, alone *atomic.Int64
}

func (m merger) DialHook(next goclient.DialHook) goclient.DialHook { return next }

func (m merger) ProcessPipelineHook(next goclient.ProcessPipelineHook) goclient.ProcessPipelineHook {
	return next
}

func (m merger) ProcessHook(next goclient.ProcessHook) goclient.ProcessHook {
	return func(ctx context.Context, cmd goclient.Cmder) error {
		const begin = 3 // EVALSHA, the script, and the number of keys
		args := cmd.Args()
		if len(args) <= begin || !strings.EqualFold(args[0].(string), "evalsha") ||
			m.args[args[1].(string)] != len(args)-begin-1 {
			return next(ctx, cmd)
		}
		other, own := "another name", args[begin+1:]
		both := slices.Concat(args[:begin-1], []any{2, other, args[begin]}, own, own)
		c := goclient.NewCmd(ctx, both...)
		if err := next(ctx, c); err != nil {
			if reply := goclient.Error(nil); !errors.As(err, &reply) {
				cmd.SetErr(err)
				return err
			}
		} else if text, _ := c.Text(); true {
			if lines := strings.Split(text, "\n"); len(lines) == 2 && lines[1] != "-" {
				m.done.Add(1)
				cmd.(interface{ SetVal(any) }).SetVal(lines[1])
				return nil
			}
		}
		m.alone.Add(1)
		return next(ctx, cmd)
	}
}

// One attempt on several servers that forgot at the same time marks each of them again, with
// different marks. Their clocks are the same here.
func TestStore_virtual_forgot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const mark = "{lock:}:birth"
		marks := map[string]bool{}
		for range 2 {
			s := virtual().Open(t).(capped)
			if _, err := s.Inspect(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.server.FlushAll()
			r := driver.Request{ID: driver.ID{Key: "key", Owner: "owner"}, Weight: driver.Whole,
				Limit: driver.Whole, TTL: time.Minute}
			if res := grant(t, s, r); res.Age <= 0 || res.Age > time.Second {
				t.Errorf("the age is %v after all was forgotten", res.Age)
			}
			got, err := s.server.Get(mark)
			if err != nil {
				t.Fatal(err)
			}
			marks[got] = true
		}
		if len(marks) != 2 {
			t.Errorf("two servers have one mark: %v", marks)
		}
	})
}

// More readers, or more waiters, have died than one call removes. Each refusal says to try again at
// once, not after a poll.
func TestStore_virtual_manyDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, ttl = 350, 5 * time.Second
		s := virtual().Open(t)
		next := func(r driver.Request) {
			t.Helper()
			for tries := 1; ; tries++ {
				res, err := s.Acquire(t.Context(), r)
				switch {
				case err != nil:
					t.Fatal(err)
				case res.Granted:
					return
				case res.Retry != time.Millisecond || tries > many/100+1:
					t.Fatalf("refused %d times, retry after %v; want all removed, 100 a millisecond", tries, res.Retry)
				}
				time.Sleep(res.Retry)
			}
		}
		for range many {
			r := shared("readers")
			r.TTL = ttl
			grant(t, s, r)
		}
		time.Sleep(ttl)
		next(exclusive("readers"))

		a := exclusive("waiters")
		a.TTL = ttl
		grant(t, s, a)
		for range many {
			w := exclusive("waiters")
			w.QueueTTL = ttl
			refuse(t, s, w)
		}
		time.Sleep(ttl + time.Millisecond)
		next(exclusive("waiters"))
	})
}

// A key with more claims than a page has is shown whole, each claim once, also where more claims
// end in one ms than a page has.
func TestStore_virtual_pages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 450
		s := virtual().Open(t)
		var want []string
		for i := range many {
			r := shared("key")
			if i >= many/4 {
				r.TTL += time.Duration(i) * time.Millisecond
			}
			grant(t, s, r)
			want = append(want, driver.Tag(r.Owner))
		}
		for range many {
			w := exclusive("key")
			w.QueueTTL = time.Minute
			refuse(t, s, w)
			want = append(want, driver.Tag(w.Owner))
		}
		for range many { // these end in the same ms
			grant(t, s, shared("other"))
		}
		cs, err := driver.Show(t.Context(), s, "key")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range cs {
			got = append(got, c.Owner)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d claims and queue entries, want these %d in order", len(got), len(want))
		}
		if cs, err := driver.Show(t.Context(), s, "other"); err != nil || len(cs) != many {
			t.Errorf("%d claims that end at once, %v; want %d", len(cs), err, many)
		}
		// the head of the queue has the key then
		for key, left := range map[string]int{"key": 1, "other": 0} {
			if cs, err := driver.Break(t.Context(), s, key, 0, "test"); err != nil || len(cs) != many {
				t.Errorf("%s: %d claims were broken, %v; want %d", key, len(cs), err, many)
			}
			cs, err := driver.Show(t.Context(), s, key)
			if cs = slices.DeleteFunc(cs, func(c driver.Claim) bool { return c.Waiting }); err != nil ||
				len(cs) != left {
				t.Errorf("%s: %d claims are left, %v; want %d", key, len(cs), err, left)
			}
		}
	})
}

// A claim that is granted between two pages of a Break stays.
func TestStore_virtual_breakPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 450
		s := virtual().Open(t).(capped)
		for range many {
			grant(t, s, shared("key"))
		}
		late, calls := shared("key"), 0
		late.TTL = time.Hour
		s.server.Server().SetPreHook(func(_ *server.Peer, cmd string, args ...string) bool {
			if cmd == "EVALSHA" && slices.Contains(args, "test") {
				if calls++; calls == 2 { // the first one sent the script
					if res, err := s.Acquire(t.Context(), late); err != nil || !res.Granted {
						t.Errorf("%+v, %v; want a grant", res, err)
					}
				}
			}
			return false
		})
		cs, err := s.Break(t.Context(), "key", 0, "test")
		if err != nil || len(cs) != many || calls < 2 {
			t.Errorf("%d claims were broken by %d calls, %v; want %d by some", len(cs), calls, err, many)
		}
		if cs, err = s.Show(t.Context(), "key"); err != nil || len(cs) != 1 ||
			cs[0].Owner != driver.Tag(late.Owner) {
			t.Errorf("%d claims are left, %v; want the one that came later", len(cs), err)
		}
	})
}
