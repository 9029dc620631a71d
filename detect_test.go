package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A showGate is a gate that counts the calls of Show, and lets a test change their result.
type showGate struct {
	*gate
	shows atomic.Int64
	after func(key string) error // runs after each call; nil: nothing
}

func (p *showGate) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	p.shows.Add(1)
	claims, err := p.Store.Show(ctx, key)
	if p.after != nil {
		err = errors.Join(err, p.after(key))
	}
	return claims, err
}

func (p *showGate) locker(t *testing.T, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	return lockerOn(t, p, opts...)
}

// notices returns the number of notices in the store.
func (g *gate) notices(t *testing.T) (n int) {
	t.Helper()
	for c, err := range g.Store.List(context.Background(), "~wait/") {
		if err != nil {
			t.Fatal(err)
		}
		if c.Task == "" || c.Holder == "" {
			t.Errorf("a notice without a task or holder: %+v", c)
		}
		n++
	}
	return n
}

// LockAll holds its first locks while it waits for the others.
func TestDeadlock_LockAll(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t, distlock.Holder("a")), g.locker(t, distlock.Holder("b"))
		last := must(t)(b.Lock(t.Context(), "3"))
		var all *distlock.Leases
		takeAll := func(ctx context.Context, _ string, _ ...distlock.Option) (_ *distlock.Lease, err error) {
			all, err = a.LockAll(ctx, []string{"3", "1", "2"})
			return nil, err
		}
		time.Sleep(time.Second)
		many := begin(t.Context(), takeAll, "").waits(t)
		one := begin(under(t, last), b.Lock, "1").waits(t)
		err := many.refused(t, distlock.ErrDeadlock)
		many.within(t, time.Second, 2*time.Second)
		var deadlock *distlock.DeadlockError
		if !errors.As(err, &deadlock) || len(deadlock.Cycle) != 2 || deadlock.Name != "3" ||
			deadlock.Cycle[0].Holds[0].Name != "1" || len(deadlock.Cycle[0].Holds) != 1 {
			t.Errorf("%v", err)
		}
		free(t, one.now(t)) // LockAll has released all its locks
		free(t, last)
		if all != nil {
			t.Error("leases in spite of the error")
		}
		g.empty(t, a, b)
	})
}

// A cycle that one look at the wait-for graph shows and the next does not is no deadlock.
func TestDeadlock_leavesMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		time.Sleep(time.Second)
		y := must(t)(b.Lock(t.Context(), "y"))
		ctx, cancel := context.WithCancelCause(under(t, x))
		leaves := begin(ctx, a.Lock, "y").waits(t)
		time.Sleep(100 * time.Millisecond)
		stays := begin(under(t, y), b.Lock, "x").waits(t)
		time.Sleep(1100 * time.Millisecond) // b has seen the cycle once
		stays.waits(t)
		cancel(errors.New("enough"))
		if err := leaves.refused(t, distlock.ErrHeld); errors.Is(err, distlock.ErrDeadlock) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		stays.waits(t)
		free(t, x)
		free(t, stays.now(t))
		free(t, y)
		g.empty(t, a, b)
	})
}

// A store whose least TTL is two seconds keeps notices for that long. A deadlock is found a little
// later, and a process that died is in none.
func TestDeadlock_longNotices(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.features = func(f *driver.Features) { f.MinTTL = 2 * time.Second }
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		time.Sleep(time.Second)
		y := must(t)(b.Lock(t.Context(), "y"))
		waits, victim := begin(under(t, x), a.Lock, "y"), begin(under(t, y), b.Lock, "x")
		victim.within(t, 3*time.Second, 4*time.Second)
		victim.refused(t, distlock.ErrDeadlock)
		free(t, y)
		free(t, waits.now(t))
		free(t, x)
	})
	died(t, func(f *driver.Features) { f.MinTTL = 2 * time.Second }, 2100*time.Millisecond)
}

// A process that died waits for no lock. Its locks are free when their TTL has ended.
func TestDeadlock_dead(t *testing.T) { died(t, nil, 1200*time.Millisecond) }

// died freezes a process that waits, and then lets another wait for the lock that it holds.
func died(t *testing.T, features func(*driver.Features), after time.Duration) {
	inBubble(t, func(t *testing.T, g *gate) {
		g.features = features
		far := g.another()
		far.features = features
		a, d := g.locker(t), far.locker(t, distlock.TTL(10*time.Second))
		y := must(t)(d.Lock(t.Context(), "y"))
		time.Sleep(time.Second)
		x := must(t)(a.Lock(t.Context(), "x"))
		begin(under(t, y), d.Lock, "x").waits(t)
		time.Sleep(after)
		if n := g.notices(t); n != 1 {
			t.Errorf("%d notices", n)
		}
		far.freeze()
		waits := begin(under(t, x), a.Lock, "y").waits(t)
		free(t, waits.granted(t))
		free(t, x)
	})
}

// Notices that cannot be parsed, or that name another key, are ignored.
func TestDeadlock_strangeNotices(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		y := must(t)(b.Lock(t.Context(), "y"))
		time.Sleep(time.Second)
		x := must(t)(a.Lock(t.Context(), "x"))
		claims, err := g.Store.Show(t.Context(), "y")
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		for i, text := range []string{
			"", "{", `{"key":"z","fence":1,"wants":"x","weight":1073741824,"limit":1073741824}`, // as if two owners had one tag
		} {
			r := driver.Request{
				ID: driver.ID{Key: "~wait/" + claims[0].Owner, Owner: fmt.Sprint(i)}, Weight: 1, Limit: driver.Whole, TTL: time.Hour,
				Holder: "h", Task: fmt.Sprint("p", i), Value: []byte(text),
			}
			if _, err := g.Store.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		waits := begin(under(t, x), a.Lock, "y").waits(t)
		time.Sleep(time.Minute)
		waits.waits(t)
		free(t, y)
		free(t, waits.now(t))
		free(t, x)
	})
}

// A deadlock is reported later, and otherwise in the same way, if Show fails for a while.
func TestDeadlock_lookFails(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		p := &showGate{gate: g}
		var down atomic.Bool
		down.Store(true)
		p.after = func(string) error {
			if down.Load() {
				return driver.ErrUnavailable
			}
			return nil
		}
		a, b := p.locker(t), p.locker(t)
		k := tie(t, []step{{lock(a.Lock, "x"), lock(a.Lock, "y")}, {lock(b.Lock, "y"), lock(b.Lock, "x")}}, none)
		time.Sleep(time.Minute)
		k.calls[0].waits(t)
		k.calls[1].waits(t)
		down.Store(false)
		k.formed = time.Now()
		k.untie(t, 1)
		g.empty(t, a, b)
	})
}

// Notices that the store lost or did not accept are posted again.
func TestDeadlock_noticesLost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		var posted atomic.Int64
		g.set(func(g *gate) {
			g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				if !strings.HasPrefix(r.Key, "~wait/") {
					return next(ctx, r)
				}
				nth := posted.Add(1)
				if nth <= 2 {
					return driver.Result{}, errCut
				}
				res, err := next(ctx, r)
				if nth <= 4 {
					_ = g.Store.Release(ctx, r.ID)
				}
				return res, err
			}
		})
		k := tie(t, []step{{lock(a.Lock, "x"), lock(a.Lock, "y")}, {lock(b.Lock, "y"), lock(b.Lock, "x")}}, none)
		k.formed = k.formed.Add(2 * time.Second) // four looks found no notice
		k.untie(t, 1)
		g.mend()
		g.empty(t, a, b)
	})
}

// The answer to a notice was lost. The notice says that a larger call waits before its own. It is
// corrected when this no longer holds.
func TestDeadlock_noticeUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		far := g.another()
		a, b, c := far.locker(t), g.locker(t), g.locker(t)
		slots := func(l *distlock.Locker) *distlock.Semaphore {
			s, err := l.Semaphore(3)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		x := must(t)(a.Lock(t.Context(), "x"))
		works := must(t)(slots(c).Acquire(t.Context(), "s"))
		time.Sleep(time.Second)
		slot := must(t)(slots(b).Acquire(t.Context(), "s")) // the latest lease would be the victim's

		of := slots(a)
		ctx, cancel := context.WithCancel(t.Context())
		large := begin(ctx, of.Acquire, "s", distlock.Weight(3)).waits(t)
		small := begin(under(t, x), of.Acquire, "s", distlock.Weight(2)).waits(t)
		far.set(func(far *gate) {
			far.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
				res, err := next(ctx, r)
				if strings.HasPrefix(r.Key, "~wait/") {
					err = errCut
				}
				return res, err
			}
		})
		time.Sleep(1100 * time.Millisecond)
		if n := g.notices(t); n != 1 {
			t.Fatalf("%d notices", n)
		}
		far.mend()
		cancel()
		large.refused(t, context.Canceled)

		time.Sleep(time.Second)
		waits := begin(under(t, slot), b.Lock, "x").waits(t)
		time.Sleep(10 * time.Second)
		waits.waits(t) // only the slot at work blocks the small call
		small.waits(t)
		free(t, works)
		free(t, small.now(t))
		free(t, x)
		free(t, waits.now(t))
		free(t, slot)
		g.empty(t, a, b, c)
	})
}

// A call that waits on after its lease has ended blocks no other call.
func TestDeadlock_leaseEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		y := must(t)(b.Lock(t.Context(), "y"))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Context(t.Context())), time.Hour)
		defer cancel()
		waits := begin(ctx, a.Lock, "y").waits(t)
		time.Sleep(3 * time.Second)
		if n := g.notices(t); n != 1 {
			t.Errorf("%d notices", n)
		}
		free(t, x)
		synctest.Wait()
		if n := g.notices(t); n != 0 {
			t.Errorf("%d notices of a lease that has ended", n)
		}
		waits.waits(t)
		free(t, y)
		free(t, waits.now(t))
		g.empty(t, a, b)
	})
}

// A wait without a lease, a short wait, and a wait for a rate limit cost no call of the deadlock
// detector. A long wait under a lease costs one renewal and two calls of Show in 0.4 s.
func TestDeadlock_cost(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		p := &showGate{gate: g}
		a, b := p.locker(t), p.locker(t)
		limit, err := a.Limiter(1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		x := must(t)(b.Lock(t.Context(), "x"))
		begin(t.Context(), a.Lock, "x").waits(t)
		time.Sleep(10 * time.Second)
		y := must(t)(a.Lock(t.Context(), "y"))
		short, cancel := context.WithTimeout(y.Context(t.Context()), 900*time.Millisecond)
		defer cancel()
		begin(short, a.Lock, "x").refused(t, distlock.ErrHeld)
		if err := limit.Allow(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		if err := limit.Wait(y.Context(t.Context()), "r"); err != nil {
			t.Error(err)
		}
		if n := p.shows.Load(); n != 0 || g.notices(t) != 0 {
			t.Errorf("%d calls of Show", n)
		}
		begin(y.Context(t.Context()), a.Lock, "x").waits(t)
		time.Sleep(time.Second)
		g.reset()
		time.Sleep(10 * time.Second)
		if n := p.shows.Load(); n < 50 || n > 58 {
			t.Errorf("%d calls of Show in 10 s", n)
		}
		if n := g.count("renew"); n < 24 || n > 27+2*2 { // and the renewals of the two leases
			t.Errorf("%d renewals in 10 s", n)
		}
		_ = x
	})
}

// A call that no longer waits has no notices, whatever leases its context still holds.
func TestDeadlock_waitEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		x := must(t)(a.Lock(t.Context(), "x"))
		y := must(t)(b.Lock(t.Context(), "y"))
		ctx, leave := context.WithCancel(under(t, x))
		left, granted := begin(ctx, a.Lock, "y").waits(t), begin(under(t, x), a.Lock, "y").waits(t)
		time.Sleep(2 * time.Second)
		if n := g.notices(t); n != 2 {
			t.Errorf("%d notices", n)
		}
		leave()
		if err := left.refused(t); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := g.notices(t); n != 1 {
			t.Errorf("%d notices after one call has left", n)
		}
		free(t, y)
		free(t, granted.granted(t))
		if n := g.notices(t); n != 0 {
			t.Errorf("%d notices after the wait", n)
		}
		free(t, x)
		g.empty(t, a, b)
	})
}

// waitUnderLease begins a call of Locker a that holds x and waits for y, which Locker b holds. It
// returns when the call has posted its notice.
func waitUnderLease(t *testing.T, g *gate) (a, b *distlock.Locker, x, y *distlock.Lease, waits *call) {
	t.Helper()
	a, b = g.locker(t), g.locker(t)
	x = must(t)(a.Lock(t.Context(), "x"))
	y = must(t)(b.Lock(t.Context(), "y"))
	waits = begin(under(t, x), a.Lock, "y").waits(t)
	time.Sleep(2 * time.Second)
	if n := g.notices(t); n != 1 {
		t.Errorf("%d notices", n)
	}
	return a, b, x, y, waits
}

// A Locker that is closed ends its detectors, and removes their notices.
func TestDeadlock_Close(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b, _, y, waits := waitUnderLease(t, g)
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := waits.refused(t); !errors.Is(err, distlock.ErrClosed) && !errors.Is(err, distlock.ErrReleased) {
			t.Error(err)
		}
		if n := g.notices(t); n != 0 {
			t.Errorf("%d notices after Close", n)
		}
		free(t, y)
		g.empty(t, a, b)
	})
}

// Claims does not list notices: users did not name them.
func TestDeadlock_notListed(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, _, x, y, waits := waitUnderLease(t, g)
		n := 0
		for c, err := range a.List(t.Context(), distlock.KindAny, "") {
			if n++; err != nil || c.Name != "x" && c.Name != "y" {
				t.Errorf("%+v, %v", c, err)
			}
		}
		if n != 3 {
			t.Errorf("%d claims and queue entries", n)
		}
		free(t, y)
		free(t, waits.now(t))
		free(t, x)
	})
}

// On a store without a queue or without values the detector makes no calls. The locks wait as they
// would without it.
func TestDeadlock_notSupported(t *testing.T) {
	for name, take := range map[string]func(*driver.Features){
		"queue":  func(f *driver.Features) { f.Queue = false },
		"values": func(f *driver.Features) { f.Value = false },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, g *gate) {
				g.features = take
				p := &showGate{gate: g}
				a, b := p.locker(t), p.locker(t)
				x, y := must(t)(a.Lock(t.Context(), "x")), must(t)(b.Lock(t.Context(), "y"))
				ctx, cancel := context.WithTimeout(x.Context(t.Context()), time.Minute)
				defer cancel()
				first, second := begin(ctx, a.Lock, "y"), begin(under(t, y), b.Lock, "x")
				if err := first.refused(t, distlock.ErrHeld, context.DeadlineExceeded); errors.Is(err, distlock.ErrDeadlock) {
					t.Error(err)
				}
				free(t, x)
				free(t, second.granted(t))
				free(t, y)
				if p.shows.Load() != 0 {
					t.Errorf("%d calls of Show", p.shows.Load())
				}
			})
		})
	}
}

// A goroutine waits under the outer lease. Its wait blocks that lease, not the inner lease that
// another goroutine acquired under it.
func TestDeadlock_branches(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t), g.locker(t)
		y := must(t)(b.Lock(t.Context(), "y"))
		time.Sleep(time.Second)
		outer := must(t)(a.Lock(t.Context(), "outer"))
		inner := must(t)(a.Lock(outer.Context(t.Context()), "inner"))
		branch := begin(under(t, outer), a.Lock, "y").waits(t)
		other := begin(under(t, y), b.Lock, "inner").waits(t) // inner can be released: there is no cycle
		time.Sleep(time.Minute)
		branch.waits(t)
		other.waits(t)
		free(t, inner)
		free(t, other.now(t))
		free(t, y)
		free(t, branch.now(t))
		free(t, outer)
		g.empty(t, a, b)
	})
}

// After a hand-off in memory, the next lease takes part in the wait-for graph, not the first one.
func TestDeadlock_handedOff(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		a, b := g.locker(t, distlock.Holder("a")), g.locker(t, distlock.Holder("b"))
		first := must(t)(a.Lock(t.Context(), "x"))
		next := begin(t.Context(), a.Lock, "x").waits(t)
		free(t, first)
		x := next.now(t)
		if x.Fence() != first.Fence()+1 {
			t.Fatal("it was not handed off")
		}
		time.Sleep(time.Second)
		y := must(t)(b.Lock(t.Context(), "y"))
		k := &knot{
			leases: []*distlock.Lease{x, y},
			calls:  []*call{begin(under(t, x), a.Lock, "y").waits(t), begin(under(t, y), b.Lock, "x").waits(t)}, formed: time.Now(),
		}
		deadlock := k.untie(t, 1)
		if c := deadlock.Cycle[1].Holds[0]; c.Fence != x.Fence() || c.Held < time.Second || c.Held > 4*time.Second {
			t.Errorf("%+v", c)
		}
		g.empty(t, a, b)
	})
}
