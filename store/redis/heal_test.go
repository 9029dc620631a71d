package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// The data of a name may be lost: evicted, or deleted by another program. The Redis key of the name
// decides who holds it, so nobody is granted next to a holder. The queue continues when the entries
// that it remembers have ended, and shared claims when they have ended.
func TestStore_virtual_heals(t *testing.T) {
	t.Parallel()
	// queueTTL is that of a waiter with the usual pauses
	const ttl, queueTTL = 5 * time.Second, 3 * time.Second
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				draw := rand.New(rand.NewPCG(seed, 1))
				server := virtual().Open(t).(capped)
				var writers, readers, grants atomic.Int64
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range 5 {
					locker, err := distlock.New(server, distlock.TTL(ttl))
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = locker.Close(context.Background()) }()
					pause := rand.New(rand.NewPCG(seed, uint64(i)+2))
					wg.Go(func() {
						for ctx.Err() == nil {
							lock, mine := locker.Lock, &writers
							if pause.IntN(4) == 0 && seed%2 == 1 {
								lock, mine = locker.RLock, &readers
							}
							began := time.Now()
							lease, err := lock(ctx, "key")
							if err != nil {
								if ctx.Err() == nil {
									t.Error(err)
								}
								return
							}
							if waited := time.Since(began); waited > ttl+queueTTL {
								t.Errorf("waited for %v", waited)
							}
							grants.Add(1)
							mine.Add(1)
							if w, r := writers.Load(), readers.Load(); w > 1 || w > 0 && r > 0 {
								t.Errorf("%d writers next to %d readers", w, r)
							}
							select {
							case <-time.After(time.Duration(pause.IntN(400)) * time.Millisecond):
							case <-lease.Done():
							}
							mine.Add(-1)
							_ = lease.Unlock(context.WithoutCancel(ctx))
							time.Sleep(time.Duration(pause.IntN(200)) * time.Millisecond)
						}
					})
				}
				for range 5 {
					// it has healed by then
					time.Sleep(2*(ttl+queueTTL) + time.Duration(draw.Int64N(int64(time.Second))))
					for _, part := range []string{"{lock:key}:m", "{lock:key}:c", "{lock:key}:z"} {
						if draw.IntN(2) == 0 {
							server.server.Del(part)
						}
					}
				}
				stop()
				wg.Wait()
				if n := grants.Load(); n < 200 {
					t.Errorf("%d grants in a minute", n)
				}
			})
		})
	}
}

// Readers whose data is lost are waited out: they trust their claims until the next renewal.
func TestStore_virtual_lostHash(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"{lock:key}:m", "{lock:key}:c"} {
		lostPart(t, part)
	}
}

func lostPart(t *testing.T, part string) {
	synctest.Test(t, func(t *testing.T) {
		s := virtual().Open(t).(capped)
		r, w := shared("key"), exclusive("key")
		grant(t, s, r)
		s.server.Del(part)
		res := refuse(t, s, w)
		if res.Used != driver.Whole || res.Blocker.Holder != "another client" || res.Retry <= 0 ||
			res.Retry > r.TTL+time.Millisecond {
			t.Errorf("refused with %+v, want all used by another client for the rest of its TTL", res)
		}
		refuse(t, s, shared("key"))
		if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: r.TTL}); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Renew: %v, want ErrNotHeld", err)
		}
		time.Sleep(res.Retry)
		grant(t, s, w)
	})
}

// A release that finds no last fence, since another program deleted the memory, does not hand the
// key over with a fence below the floor.
func TestStore_virtual_lostFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtual().Open(t).(capped)
		a, b, c := exclusive("key"), exclusive("key"), exclusive("key")
		b.QueueTTL, c.QueueTTL = time.Minute, time.Minute
		floor := time.Now().Add(time.Hour).UnixMicro() // the clock was set back
		if err := s.server.Set(floorKey, fmt.Sprint(floor)); err != nil {
			t.Fatal(err)
		}
		first := grant(t, s, a)
		refuse(t, s, b)
		s.server.Del("{lock:key}:m")
		refuse(t, s, c)
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims(t, s, "key") {
			if !claim.Waiting && claim.Fence <= first.Fence {
				t.Errorf("fence %d after %d", claim.Fence, first.Fence)
			}
		}
	})
}

// With Replicas a grant counts once they have it. A release that hands the key over does not wait
// for them. So the waiter is notified without a grant: its next attempt waits for the replicas.
func TestStore_replicas_woken(t *testing.T) {
	srv := testenv.Redis(t, testenv.Shared())
	open := adapters["goredis"]
	first, second := open(t, login{addr: srv.Addr}),
		open(t, login{addr: srv.Addr, opt: &redis.Options{Replicas: 1}})
	a := exclusive("replicas_woken")
	w := exclusive(a.Key)
	w.QueueTTL = time.Minute
	grant(t, first, a)
	wake := driver.Watch(t.Context(), second, w.ID)
	refuse(t, second, w)
	drain(wake)
	if err := first.Release(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-wake:
		if got.Granted {
			t.Errorf("notified of a grant that no replica has: %+v", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("not woken")
	}
}

// A user who may not subscribe polls, and no attempt waits for the subscription.
func TestStore_noSubscription(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.ACL("user default on nopass ~* &* +@all",
		"user deaf on nopass ~* &* +@all -subscribe -ssubscribe"))
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		t.Parallel()
		s := open(t, login{addr: srv.Addr, user: "deaf", password: "any"})
		for range 3 {
			clock := testenv.NewStopwatch(t)
			if driver.Watch(t.Context(), s, exclusive("key").ID) != nil {
				t.Error("a watch without a subscription")
			}
			if took := clock.Elapsed(); took > time.Second {
				t.Errorf("Watch took %v", took)
			}
		}
	})
}

// A semaphore whose memory was lost does not let one too many in: claims that nobody counted are
// not taken off the count when they end.
func TestStore_virtual_lostMemory(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(t *testing.T, s capped){
		"shared": func(*testing.T, capped) {},
		"exclusive": func(t *testing.T, s capped) {
			x := exclusive("key")
			grant(t, s, x)
			if err := s.Release(t.Context(), x.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtual().Open(t).(capped)
				slot := func() driver.Request {
					r := shared("key")
					r.Limit = 2
					return r
				}
				old := slot()
				grant(t, s, old)
				s.server.Del("{lock:key}:m")
				time.Sleep(old.TTL)
				next(t, s)
				grant(t, s, slot())
				grant(t, s, slot())
				refuse(t, s, slot())
				refuse(t, s, slot())
			})
		})
	}
}
