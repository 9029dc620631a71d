package redisfence_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/redisfence"
	"github.com/distlock/distlock/fence/redisfence/goredisfence"
	"github.com/distlock/distlock/fence/redisfence/rueidisfence"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, testenv.Roles{"holder": holderRole}),
		testenv.IgnoreRueidis()...)
}

// An opener makes a client. More than one address means a cluster.
type opener func(t testing.TB, addrs ...string) redisfence.Client

// adapters make a client from each library.
var adapters = map[string]opener{
	"goredis": func(t testing.TB, addrs ...string) redisfence.Client {
		c := goclient.NewUniversalClient(&goclient.UniversalOptions{Addrs: addrs})
		t.Cleanup(func() { c.Close() })
		return goredisfence.New(c)
	},
	"rueidis": func(t testing.TB, addrs ...string) redisfence.Client {
		c, err := ruclient.NewClient(ruclient.ClientOption{InitAddress: addrs, DisableCache: true})
		must(t, err)
		t.Cleanup(c.Close)
		return rueidisfence.New(c)
	},
}

func each(t *testing.T, f func(t *testing.T, open opener)) {
	for name, open := range adapters {
		t.Run(name, func(t *testing.T) { f(t, open) })
	}
}

func newGuard(t testing.TB, c redisfence.Client, opt *redisfence.Options) *redisfence.Guard {
	t.Helper()
	g, err := redisfence.New(c, opt)
	must(t, err)
	return g
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func proof(t testing.TB, key string, n uint64) fence.Proof {
	t.Helper()
	p, err := fence.New(key, n)
	must(t, err)
	return p
}

// value runs a command on the server itself.
func value(t testing.TB, r *testenv.RedisServer, args ...string) any {
	t.Helper()
	v, err := r.Do(t.Context(), args...)
	must(t, err)
	return v
}

// wantStale fails unless err says that fence is stale, and that current is the highest.
func wantStale(t testing.TB, err error, n, current uint64) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("fence %d after %d: %v, want ErrStale", n, current, err)
	}
	if stale.Fence != n || stale.Current != current {
		t.Errorf("the error has fence %d and current %d, want %d and %d", stale.Fence, stale.Current, n, current)
	}
}

func TestGuard(t *testing.T) {
	each(t, func(t *testing.T, open opener) {
		r := testenv.Redis(t, testenv.Shared())
		ctx, key, g := t.Context(), rand.Text(), newGuard(t, open(t, r.Addr), nil)
		set := func(n uint64, v string) error { return g.Set(ctx, proof(t, key, n), key, v) }
		want := func(v any) {
			t.Helper()
			if got := value(t, r, "GET", key); got != v {
				t.Errorf("the key holds %v, want %v", got, v)
			}
		}
		t.Run("a higher fence and the same one again", func(t *testing.T) {
			must(t, set(9, "a"))
			must(t, set(9, "b"))
			want("b")
		})
		t.Run("integers", func(t *testing.T) {
			must(t, set(10, "c"))
			wantStale(t, set(9, "d"), 9, 10)
			must(t, set(1<<53-2, "e"))
			must(t, set(1<<53-1, "f"))
			wantStale(t, set(1<<53-2, "g"), 1<<53-2, 1<<53-1)
			want("f")
		})
		t.Run("the register is shared by a tag, and by Advance", func(t *testing.T) {
			lock := rand.Text()
			must(t, g.Set(ctx, proof(t, lock, 5), "{"+lock+"}:a", "1"))
			wantStale(t, g.Set(ctx, proof(t, lock, 4), "{"+lock+"}:b", "1"), 4, 5)
			wantStale(t, g.Advance(ctx, proof(t, lock, 4)), 4, 5)
			must(t, g.Advance(ctx, proof(t, lock, 6)))
			wantStale(t, g.Del(ctx, proof(t, lock, 5), "{"+lock+"}:a"), 5, 6)
			must(t, g.Del(ctx, proof(t, lock, 6), "{"+lock+"}:a"))
			must(t, g.Set(ctx, proof(t, lock+"2", 1), "{"+lock+"}:a", "1")) // another lock has its own
			wantStale(t, g.Set(ctx, proof(t, lock, 1), "{"+lock+"}:a", "1"), 1, 6)
		})
		t.Run("commands", func(t *testing.T) {
			list, p := rand.Text(), proof(t, key, 1<<53-1)
			for _, step := range []struct {
				command []string
				want    any
			}{
				{[]string{"RPUSH", "a", "b"}, int64(2)},
				{[]string{"LPOP"}, "a"},
				{[]string{"DEL"}, int64(1)},
				{[]string{"GET"}, nil},
				{[]string{"SET", "x", "PX", "60000"}, "OK"},
				{[]string{"GET"}, "x"},
			} {
				if got, err := g.Do(ctx, p, list, step.command[0], step.command[1:]...); got != step.want || err != nil {
					t.Errorf("%v: %v, %v, want %v", step.command, got, err, step.want)
				}
			}
			got, err := g.Do(ctx, p, list, "HGET", "x")
			if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("a wrong command: %v, %v, want the server's error", got, err)
			}
		})
		t.Run("a command that fails leaves its fence", func(t *testing.T) {
			lock := rand.Text()
			if _, err := g.Do(ctx, proof(t, lock, 8), key, "HSET", "a", "b"); err == nil {
				t.Error("no error")
			}
			want("f")
			wantStale(t, g.Set(ctx, proof(t, lock, 7), key, "z"), 7, 8)
			want("f")
		})
		t.Run("scripts forgotten", func(t *testing.T) {
			value(t, r, "SCRIPT", "FLUSH")
			must(t, set(1<<53-1, "h"))
			want("h")
		})
		t.Run("a register that holds something else", func(t *testing.T) {
			lock := rand.Text()
			value(t, r, "SET", "fence:{"+lock+"}"+lock, "rubbish")
			if err := g.Set(ctx, proof(t, lock, 7), lock, "a"); err == nil || errors.Is(err, fence.ErrStale) {
				t.Errorf("%v, want an error", err)
			}
			if v := value(t, r, "GET", lock); v != nil {
				t.Errorf("the key holds %v, want nothing", v)
			}
		})
	})
}

func TestGuard_refuses(t *testing.T) {
	t.Parallel()
	ctx, none := t.Context(), unreachable{t}
	g := newGuard(t, none, nil)
	for _, key := range []string{"", "a}", "{}a", "}{a"} {
		if err := g.Set(ctx, proof(t, "a", 1), key, "x"); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("key %q: %v, want ErrInvalid", key, err)
		}
	}
	for _, l := range []fence.Lease{nil, (*distlock.Lease)(nil), fence.Proof{}} {
		if err := g.Set(ctx, l, "a", "x"); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%#v: %v, want ErrInvalid", l, err)
		}
	}
	for _, opt := range []redisfence.Options{{Prefix: "{a}"}, {Keep: -1}, {Keep: time.Microsecond}} {
		if _, err := redisfence.New(none, &opt); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", opt, err)
		}
	}
	if _, err := redisfence.New(nil, nil); err == nil {
		t.Error("no client: no error")
	}
}

// unreachable is a client that must not be called.
type unreachable struct{ t *testing.T }

func (u unreachable) Eval(context.Context, string, string, []string, []string) (any, error) {
	u.t.Error("the client was called")
	return nil, errors.New("called")
}

// A fence with Keep is renewed by every change, and forgotten after that time.
func TestGuard_keep(t *testing.T) {
	r := testenv.Redis(t, testenv.Shared())
	ctx, key := t.Context(), rand.Text()
	g := newGuard(t, adapters["goredis"](t, r.Addr), &redisfence.Options{Prefix: "kept:", Keep: time.Hour})
	must(t, g.Set(ctx, proof(t, key, 9), key, "a"))
	register := "kept:{" + key + "}" + key
	value(t, r, "PEXPIRE", register, "1000")
	must(t, g.Set(ctx, proof(t, key, 9), key, "b"))
	if left := value(t, r, "PTTL", register).(int64); left < 3_590_000 || left > 3_600_000 {
		t.Errorf("the fence is kept for %d ms more, want an hour", left)
	}
	value(t, r, "DEL", register) // the hour has passed
	must(t, g.Set(ctx, proof(t, key, 8), key, "c"))
}

// One call is one command.
func TestGuard_roundTrips(t *testing.T) {
	each(t, func(t *testing.T, open opener) {
		const calls = 100
		r := testenv.Redis(t)
		ctx, g := t.Context(), newGuard(t, open(t, r.Addr), nil)
		must(t, g.Set(ctx, proof(t, "a", 1), "a", "x")) // the server learns the script
		value(t, r, "CONFIG", "RESETSTAT")
		for n := range uint64(calls) {
			must(t, g.Set(ctx, proof(t, "a", n+2), "a", "x"))
		}
		if got := r.Info(ctx, "cmdstat_evalsha"); !strings.HasPrefix(got, "calls="+strconv.Itoa(calls)+",") {
			t.Errorf("evalsha: %s, want %d calls", got, calls)
		}
		for _, other := range []string{"cmdstat_eval", "cmdstat_script", "cmdstat_multi"} {
			if got := r.Info(ctx, other); got != "" {
				t.Errorf("%s: %s, want none", other, got)
			}
		}
	})
}

// A command whose answer is lost is not sent again: it may not be idempotent.
func TestGuard_lostReply(t *testing.T) {
	each(t, func(t *testing.T, open opener) {
		r := testenv.Redis(t, testenv.Shared())
		link := testenv.Proxy(t, r.Addr)
		ctx, key, g := t.Context(), rand.Text(), newGuard(t, open(t, link.Addr), nil)
		_, err := g.Do(ctx, proof(t, key, 1), key, "INCR")
		must(t, err)
		link.EatReply([]byte("INCR"))
		if _, err := g.Do(ctx, proof(t, key, 1), key, "INCR"); err == nil {
			t.Error("the answer was lost, and there is no error")
		}
		link.Heal()
		if got := value(t, r, "GET", key); got != "2" {
			t.Errorf("counted %v, want 2", got)
		}
	})
}

func TestGuard_cluster(t *testing.T) {
	cluster := testenv.RedisCluster(t, testenv.Replicas(0))
	each(t, func(t *testing.T, open opener) {
		ctx, g := t.Context(), newGuard(t, open(t, cluster.Addrs()...), nil)
		for _, key := range []string{"a", "b{", "{c", "{d}e", "f{g}h{i}", "{{j}}k", "l m", "n{}o{p}x", "é"} {
			for _, lock := range []string{rand.Text(), "{" + rand.Text() + "}", "}" + rand.Text() + "{"} {
				err := g.Set(ctx, proof(t, lock, 9), key, "x")
				if key == "n{}o{p}x" { // Redis hashes the whole key
					if !errors.Is(err, fence.ErrInvalid) {
						t.Errorf("%q: %v, want ErrInvalid", key, err)
					}
					continue
				}
				must(t, err)
				wantStale(t, g.Set(ctx, proof(t, lock, 8), key, "y"), 8, 9)
				must(t, g.Advance(ctx, proof(t, lock, 9)))
			}
		}
	})
}

// Two instances share a register in Redis: each knows the fences that the other has seen, also
// after a crash.
func TestRegister(t *testing.T) {
	each(t, func(t *testing.T, open opener) {
		r := testenv.Redis(t, testenv.AOF(), testenv.Config("appendfsync always"))
		status := func(g *redisfence.Guard, header string) int {
			key := func(*http.Request) string { return "a{b}" }
			h := fence.Middleware(g, key, nil)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", nil)
			req.Header.Set(fence.Header, header+";exclusive;a%7Bb%7D")
			h.ServeHTTP(w, req)
			return w.Code
		}
		one, two := newGuard(t, open(t, r.Addr), nil), newGuard(t, open(t, r.Addr), nil)
		if a, b, c := status(one, "9"), status(two, "10"), status(one, "9"); a != 200 || b != 200 || c != 409 {
			t.Errorf("before: %d, %d, %d, want 200, 200, 409", a, b, c)
		}
		r.Kill()
		if s := status(one, "10"); s != 503 {
			t.Errorf("without Redis: %d, want 503", s)
		}
		r.Restart()
		one, two = newGuard(t, open(t, r.Addr), nil), newGuard(t, open(t, r.Addr), nil)
		if a, b := status(one, "9"), status(two, "10"); a != 409 || b != 200 {
			t.Errorf("after: %d, %d, want 409, 200", a, b)
		}
	})
}

// Fifty goroutines count under a lock, and the counter checks their fences: none is refused, no
// count is lost.
func TestGuard_count(t *testing.T) {
	const goroutines, rounds = 50, 20
	r := testenv.Redis(t, testenv.Shared())
	c := goclient.NewClient(&goclient.Options{Addr: r.Addr})
	defer c.Close()
	ctx, key, g := t.Context(), rand.Text(), newGuard(t, goredisfence.New(c), nil)
	locker, err := distlock.New(mem.New())
	must(t, err)
	defer locker.Close(context.WithoutCancel(ctx))
	add := func(ctx context.Context) error {
		n, err := c.Get(ctx, key).Int()
		if err != nil && !errors.Is(err, goclient.Nil) {
			return err
		}
		return g.Set(ctx, distlock.FromContext(ctx), key, strconv.Itoa(n+1))
	}
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				if err := locker.Do(ctx, key, add); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := value(t, r, "GET", key); got != strconv.Itoa(goroutines*rounds) {
		t.Errorf("counted %v, want %d", got, goroutines*rounds)
	}
}

// Fifty guests want one seat in Redis, without a lock: it is sold once. The old value is the
// version.
func TestUpdate_seat(t *testing.T) {
	r := testenv.Redis(t, testenv.Shared())
	c := goclient.NewClient(&goclient.Options{Addr: r.Addr, MaxRetries: -1})
	defer c.Close()
	ctx, key, taken := t.Context(), rand.Text(), errors.New("the seat is taken")
	must(t, c.Set(ctx, key, "free", 0).Err())
	must(t, c.Set(ctx, key+":sold", "0", 0).Err())
	swap := goclient.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('SET', KEYS[1], ARGV[2]) return 1`)
	update := func(key string, change func(string) (string, error)) error {
		_, err := fence.Update(ctx,
			func(ctx context.Context) (string, string, error) {
				v, err := c.Get(ctx, key).Result()
				return v, v, err
			},
			change,
			func(ctx context.Context, v, old string) (bool, error) {
				return swap.Run(ctx, c, []string{key}, old, v).Bool()
			},
			&fence.UpdateOptions{Tries: 1000})
		return err
	}
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for guest := range 50 {
		wg.Go(func() {
			err := update(key, func(v string) (string, error) {
				if v != "free" {
					return "", taken
				}
				return strconv.Itoa(guest), nil
			})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, taken):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
		wg.Go(func() {
			err := update(key+":sold", func(v string) (string, error) {
				n, err := strconv.Atoi(v)
				return strconv.Itoa(n + 1), err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 49 {
		t.Errorf("%d won and %d found it taken, want 1 and 49", won.Load(), lost.Load())
	}
	if got := value(t, r, "GET", key+":sold"); got != "50" {
		t.Errorf("sold %v, want 50", got)
	}
}
