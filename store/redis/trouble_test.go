package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// small makes a client with two connections in each of its pools. It returns a function that makes
// a store on the client, and functions that take one connection each for a while.
var small = map[string]func(t *testing.T, addr string) (open func(*redis.Options) (*redis.Store, error), takes []func(ctx context.Context)){
	"goredis": func(t *testing.T, addr string) (func(*redis.Options) (*redis.Store, error), []func(context.Context)) {
		c := goclient.NewClient(&goclient.Options{Addr: addr, PoolSize: 2, MaxActiveConns: 2,
			PoolTimeout: 100 * time.Millisecond})
		t.Cleanup(func() { c.Close() })
		take := func(ctx context.Context) { c.BLPop(ctx, time.Minute, "nothing") }
		return func(opt *redis.Options) (*redis.Store, error) { return goredisstore.New(c, opt) }, []func(context.Context){take, take}
	},
	"rueidis": func(t *testing.T, addr string) (func(*redis.Options) (*redis.Store, error), []func(context.Context)) {
		c, err := ruclient.NewClient(ruclient.ClientOption{
			InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true, BlockingPoolSize: 2, DisableAutoPipelining: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		pop := func() ruclient.Completed { return c.B().Blpop().Key("nothing").Timeout(60).Build() }
		take := func(ctx context.Context) { c.Do(ctx, pop()) } // from the pool for all commands
		// from the pool for WAIT and blocking commands
		hold := func(ctx context.Context) { c.Do(ctx, pop().ToPipe()) }
		return func(opt *redis.Options) (*redis.Store, error) { return rueidisstore.New(c, opt) }, []func(context.Context){take, take, hold, hold}
	},
}

// While all connections of the caller's client are taken, renewals succeed. A call that needs one
// of them ends with its ctx.
func TestStore_poolExhausted(t *testing.T) {
	t.Parallel()
	const limit, soon = time.Second, 10 * time.Second
	for name, client := range small {
		t.Run(name, func(t *testing.T) {
			srv := testenv.Redis(t)
			open, takes := client(t, srv.Addr)
			s, careful := made(t)(open(nil)), made(t)(open(&redis.Options{Replicas: 1}))
			a := exclusive("key")
			grant(t, s, a)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			free := func() {
				cancel() // before they would send again
				do(t, srv, "CLIENT", "KILL", "TYPE", "normal")
				wg.Wait()
			}
			defer free()
			for _, take := range takes {
				wg.Go(func() { take(ctx) })
			}
			for srv.Info(t.Context(), "blocked_clients") != strconv.Itoa(len(takes)) {
				time.Sleep(time.Millisecond)
			}
			bounded := func(verb string, limit time.Duration, call func(context.Context) error) error {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				err := call(ctx)
				if took := time.Since(began); took > soon+limit {
					t.Errorf("%s took %v with a limit of %v", verb, took, limit)
				}
				return err
			}
			if err := bounded("Renew", soon, func(ctx context.Context) error {
				_, err := s.Renew(ctx, driver.Renewal{ID: a.ID, TTL: time.Minute})
				return err
			}); err != nil {
				t.Errorf("Renew: %v", err)
			}
			if err := bounded("RenewAll", soon, func(ctx context.Context) error {
				return s.RenewAll(ctx, []driver.Renewal{{ID: a.ID, TTL: time.Minute}})[0].Err
			}); err != nil {
				t.Errorf("RenewAll: %v", err)
			}
			if err := bounded("Acquire", limit, func(ctx context.Context) error {
				_, err := s.Acquire(ctx, exclusive("other"))
				return err
			}); err != nil && !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("Acquire: %v, want none, or ErrUnavailable", err)
			}
			if err := bounded("Acquire with Replicas", limit, func(ctx context.Context) error {
				_, err := careful.Acquire(ctx, exclusive("careful"))
				return err
			}); err == nil {
				t.Error("Acquire with Replicas found a connection: this tests nothing")
			}
			_ = bounded("Watch and Close", limit, func(ctx context.Context) error {
				driver.Watch(ctx, careful, driver.ID{Key: "key", Owner: "waits"})
				return careful.Close()
			})
			free()
			time.Sleep(limit)
			if n := do(t, srv, "EXISTS", "lock:careful"); n != int64(0) {
				t.Error("a connection came free, and the attempt of a caller that had left was made")
			}
		})
	}
}

// A call ends with its ctx though the server says nothing.
func TestStore_silentServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		for name, opt := range map[string]*redis.Options{"plain": {}, "replicas": {Replicas: 1}} {
			t.Run(name, func(t *testing.T) { silent(t, open, opt) })
		}
	})
}

func silent(t *testing.T, open func(testing.TB, login) *redis.Store, opt *redis.Options) {
	srv := testenv.Redis(t)
	s := open(t, login{addr: srv.Addr, opt: opt})
	if _, err := s.Acquire(t.Context(), exclusive("other")); err != nil && opt.Replicas == 0 {
		t.Fatal(err)
	}
	srv.Pause()
	defer srv.Resume()
	for name, limit := range map[string]func(time.Duration) (context.Context, context.CancelFunc){
		"deadline": func(d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), d)
		},
		"cancelled": func(d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(d, cancel)
			return ctx, cancel
		},
	} {
		// A call that a busy machine did not send in time has changed nothing, and reports that:
		// then it gets more time.
		err := driver.ErrUnavailable
		for d := 50 * time.Millisecond; errors.Is(err, driver.ErrUnavailable) &&
			d < 10*time.Second; d *= 8 {
			ctx, cancel := limit(d)
			clock := testenv.NewStopwatch(t)
			_, err = s.Acquire(ctx, exclusive("key"))
			cancel()
			if took := clock.Elapsed(); took > d+2*time.Second {
				t.Errorf("%s: the call took %v, and its ctx ended after %v", name, took, d)
			}
		}
		if err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: error %v, want an unknown outcome", name, err)
		}
		ctx, cancel := limit(50 * time.Millisecond)
		clock := testenv.NewStopwatch(t)
		_, err = s.Inspect(ctx)
		cancel()
		if took := clock.Elapsed(); err == nil || took > 2*time.Second {
			t.Errorf("%s: Inspect returned %v after %v, and its ctx ended after 50ms", name, err, took)
		}
	}
}

// After a reconnect all watches are woken, since messages may have been missed, and later messages
// arrive.
func TestStore_watchReconnects(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		proxy := testenv.Proxy(t, srv.Addr)
		s := open(t, login{addr: proxy.Addr})
		direct := open(t, login{addr: srv.Addr})
		a, w := exclusive("key"), exclusive("key")
		w.QueueTTL = time.Minute
		grant(t, direct, a)
		wake := driver.Watch(t.Context(), s, w.ID)
		refuse(t, s, w)
		drain(wake)
		proxy.Reset()
		woken(t, wake, "after a reconnect")
		time.Sleep(50 * time.Millisecond)
		drain(wake)
		if err := direct.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		woken(t, wake, "by a release")
		// A connection that the reset broke may cost a call its answer.
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			res, err := s.Acquire(t.Context(), w)
			if res.Granted {
				break
			}
			if err == nil || time.Since(began) > 10*time.Second {
				t.Fatalf("Acquire: granted %v, error %v; want granted", res.Granted, err)
			}
		}
	})
}

// A watch without an owner is notified of everything after Watch has returned: by then the key has
// a note of the observer. Watch returns nil if the server takes subscriptions but no writes for
// long.
func TestStore_watchMarks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		t.Parallel()
		srv := testenv.Redis(t)
		s, other := open(t, login{addr: srv.Addr}), open(t, login{addr: srv.Addr})
		a := exclusive("key")
		grant(t, other, a)
		const pause = 500 * time.Millisecond
		var wake <-chan driver.Wake
		for tries := 1; wake == nil; tries++ {
			began := time.Now()
			do(t, srv, "CLIENT", "PAUSE", strconv.Itoa(int(pause/time.Millisecond)), "WRITE")
			wake = driver.Watch(t.Context(), s, driver.ID{Key: "key"})
			// A Watch that took much longer was delayed by a busy machine, which is a reason for
			// nil.
			if took := time.Since(began); took < pause || wake == nil && (took < 3*pause || tries == 5) {
				t.Fatalf("Watch returned %v after %v, before the key could have the note", wake, took)
			}
		}
		drain(wake)
		if err := other.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		woken(t, wake, "by a release")
		do(t, srv, "CLIENT", "PAUSE", "10000", "WRITE")
		if driver.Watch(t.Context(), s, driver.ID{Key: "another"}) != nil {
			t.Error("Watch says that it is in force, and the key does not know of it")
		}
		do(t, srv, "CLIENT", "UNPAUSE")
	})
}

func drain(wake <-chan driver.Wake) {
	select {
	case <-wake:
	default:
	}
}

func woken(t *testing.T, wake <-chan driver.Wake, how string) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
		t.Fatalf("not woken %s", how)
	}
}

// RenewAll renews many claims in few calls, and each claim gets its own answer.
func TestStore_renewMany(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		var rs []driver.Renewal
		for i := range 1200 {
			r := exclusive(fmt.Sprint("key", i))
			if i%7 != 0 {
				grant(t, s, r)
			}
			rs = append(rs, driver.Renewal{ID: r.ID, TTL: 2 * time.Minute})
		}
		do(t, srv, "CONFIG", "RESETSTAT")
		for i, got := range s.RenewAll(t.Context(), rs) {
			if held := i%7 != 0; held != (got.Err == nil) ||
				!held && !errors.Is(got.Err, driver.ErrNotHeld) {
				t.Fatalf("claim %d: %v", i, got.Err)
			}
		}
		if n := count(t, srv, "evalsha") + count(t, srv, "eval"); n > 4 { // the first sends the script
			t.Errorf("%d calls for 1200 renewals, want one for 500", n)
		}
	})
}

// An owner with the name of the mark would be mistaken for the mark.
func TestStore_mark(t *testing.T) {
	s := adapters["rueidis"](t, login{addr: testenv.Redis(t, testenv.Shared()).Addr, opt: fresh()})
	r := exclusive("key")
	r.Owner = "distlock:shared"
	if _, err := s.Acquire(t.Context(), r); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Acquire: %v, want ErrInvalid", err)
	}
	grant(t, s, shared("key"))
	if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Release: %v, want ErrNotHeld", err)
	}
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: time.Minute}); !errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("Renew: %v, want ErrNotHeld", err)
	}
}

// Many dead queue entries and many ended claims are removed in bounded steps.
func TestStore_manyDead(t *testing.T) {
	s := adapters["rueidis"](t, login{addr: testenv.Redis(t, testenv.Shared()).Addr, opt: fresh()})
	a := exclusive("key")
	grant(t, s, a)
	for range 350 {
		w := exclusive("key")
		w.QueueTTL = 20 * time.Millisecond
		refuse(t, s, w)
	}
	live := exclusive("key")
	live.QueueTTL = time.Minute
	refuse(t, s, live)
	time.Sleep(50 * time.Millisecond)
	if err := s.Release(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	tries := 0
	for res, err := s.Acquire(t.Context(), live); !res.Granted; res, err = s.Acquire(t.Context(), live) {
		if tries++; err != nil || tries > 5 {
			t.Fatalf("refused %d times, error %v", tries, err)
		}
	}
	for range 350 {
		r := driver.Request{ID: driver.ID{Key: "rate", Owner: rand.Text()}, Weight: 1, Limit: 1000,
			TTL: 20 * time.Millisecond}
		grant(t, s, r)
	}
	time.Sleep(50 * time.Millisecond)
	used := int64(0)
	for range 5 {
		used = grant(t, s, driver.Request{ID: driver.ID{Key: "rate", Owner: rand.Text()}, Weight: 1,
			Limit: 1000, TTL: time.Minute}).Used
	}
	if used != 5 {
		t.Errorf("used %d after five calls, want what lives: 5", used)
	}
}

// An inspected store returns with every answer how long the server has remembered. A server that
// forgot everything counts as just born.
func TestStore_age(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		s := open(t, login{addr: srv.Addr})
		a := exclusive("key")
		if age := grant(t, s, a).Age; age != 0 {
			t.Errorf("age %v before Inspect", age)
		}
		if _, err := s.Inspect(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		before := grant(t, s, a).Age
		if refused := refuse(t, s, exclusive("key")).Age; before < 20*time.Millisecond ||
			refused < before {
			t.Errorf("age %v, then %v; want 20ms and more", before, refused)
		}
		began := time.Now()
		do(t, srv, "FLUSHALL")
		again := grant(t, s, exclusive("key")).Age
		if again <= 0 || again > time.Since(began) {
			t.Errorf("age %v, %v after everything was forgotten", again, time.Since(began))
		}
		info, err := s.Inspect(t.Context())
		if err != nil || info.Age < again || info.Identity == "" {
			t.Errorf("Inspect: %+v, %v", info, err)
		}
	})
}
