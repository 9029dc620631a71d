package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/store/mem"
)

func TestLease_lost(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		for _, how := range []string{"cut", "frozen"} {
			t.Run(fmt.Sprint("at the end of its trust, store ", how, ", ", ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newGate()
					l, rival := lockerOn(t, w, distlock.TTL(ttl)), lockerOn(t, w.Store)
					begin := time.Now()
					lease := taken(t, l, "x")
					ctx := lease.Context(t.Context())
					if how == "cut" {
						w.cut()
					} else {
						w.freeze()
					}

					granted := make(chan time.Duration, 1)
					go func() {
						lease, err := rival.Lock(t.Context(), "x")
						if err != nil {
							t.Error(err)
							return
						}
						granted <- time.Since(begin)
						_ = lease.Unlock(t.Context())
					}()
					time.Sleep(trustOf(ttl) - 1)
					synctest.Wait()
					if err := lease.Err(); err != nil || isClosed(lease.Done()) || ctx.Err() != nil || !lease.Valid(0) {
						t.Fatalf("lost too early: %v", err)
					}
					if got := time.Until(lease.Until()); got != 1 {
						t.Errorf("Until is in %v, want 1ns", got)
					}
					<-ctx.Done()
					if got := time.Since(begin); got != trustOf(ttl) {
						t.Errorf("reported after %v, want %v", got, trustOf(ttl))
					}
					synctest.Wait()
					wantLoss(t, lease.Err(), distlock.LossExpired)
					wantLoss(t, context.Cause(ctx), distlock.LossExpired)
					wants(t, ctx.Err(), context.Canceled)
					if !isClosed(lease.Done()) || lease.Valid(0) || lease.Valid(-time.Hour) || !lease.Until().IsZero() || lease.Wanted() {
						t.Error("one of Done, Valid, Until, Wanted does not know")
					}
					wantLoss(t, context.Cause(lease.Context(t.Context())), distlock.LossExpired)
					if at := <-granted; at < ttl {
						t.Errorf("the rival was granted after %v, within the TTL", at)
					}
				})
			})
		}
	}
}

// The clock decides, not the timer: an observer may delay the goroutine that reports the loss.
func TestLease_lost_lookingAtTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, p := &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}, &tape{}
		defer slow.release()
		l := lockerOn(t, newGate(), distlock.TTL(time.Second), distlock.MaxHold(10*time.Second),
			distlock.Observe(p.observe), distlock.Observe(slow.observe))
		lease := taken(t, l, "x")
		ctx := lease.Context(t.Context())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if isClosed(lease.Done()) {
			t.Fatal("it was reported: the observer does not delay it")
		}
		if lease.Valid(0) {
			t.Error("valid after its time")
		}
		if ctx.Err() == nil || !isClosed(ctx.Done()) {
			t.Error("the context has not ended with the lease")
		}
		wants(t, lease.Err(), distlock.ErrMaxHold)
		wantLoss(t, context.Cause(ctx), distlock.LossMaxHold)
		wants(t, lease.Unlock(t.Context()), distlock.ErrMaxHold)
		if !isClosed(lease.Done()) {
			t.Error("not done after Unlock")
		}
		slow.release()
		synctest.Wait()
		wants(t, lease.Err(), distlock.ErrMaxHold)
		wantStory(t, p, distlock.EventGranted, distlock.EventLost)
	})
}

func TestLease_lost_inTheStore(t *testing.T) {
	t.Run("taken away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newGate(), &tape{}
			l := lockerOn(t, w, distlock.Observe(p.observe))
			lease := taken(t, l, "x")
			for _, owner := range w.secrets() {
				_ = w.Store.Release(t.Context(), driver.ID{Key: "x", Owner: owner})
			}
			<-lease.Done()
			wantLoss(t, lease.Err(), distlock.LossTaken)
			wants(t, lease.Err(), driver.ErrNotHeld)
			wants(t, lease.Unlock(t.Context()), distlock.ErrLost)
			if n := w.count("release"); n != 0 {
				t.Errorf("%d releases after a loss", n)
			}
		})
	})
	t.Run("broken, with the reason", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w), "x")
			ctx := lease.Context(t.Context())
			if _, err := driver.Break(t.Context(), w, "x", 0, "the disk is on fire"); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()
			wantLoss(t, context.Cause(ctx), distlock.LossBroken)
			var broken *driver.BrokenError
			if !errors.As(lease.Err(), &broken) || broken.Reason != "the disk is on fire" {
				t.Errorf("reason %+v", broken)
			}
			if got, want := lease.Err().Error(), `distlock: lease of "x" lost: broken: "the disk is on fire"`; got != want {
				t.Errorf("message %s, want %s", got, want)
			}
		})
	})
	t.Run("at Unlock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newGate(), &tape{}
			lease := taken(t, lockerOn(t, w, distlock.Observe(p.observe)), "x")
			if _, err := driver.Break(t.Context(), w, "x", 0, ""); err != nil {
				t.Fatal(err)
			}
			err := lease.Unlock(t.Context())
			wantLoss(t, err, distlock.LossTaken)
			if again := lease.Unlock(t.Context()); again != err { //nolint:errorlint // the same value
				t.Errorf("again %v", again)
			}
			synctest.Wait()
			wantStory(t, p, distlock.EventGranted, distlock.EventLost)
		})
	})
}

func TestLease_atRisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newGate(), &tape{}
		lease := taken(t, lockerOn(t, w, distlock.Observe(p.observe)), "x")
		ctx := lease.Context(t.Context())
		w.cut()
		time.Sleep(20 * time.Second)
		w.mend()
		time.Sleep(time.Hour)
		if err := ctx.Err(); err != nil || lease.Err() != nil || isClosed(lease.Done()) {
			t.Fatalf("lost: %v", lease.Err())
		}
		wantStory(t, p, distlock.EventGranted, distlock.EventAtRisk, distlock.EventRecovered)
		risk := p.all(distlock.EventAtRisk)[0]
		wants(t, risk.Err, errCut)
		if risk.Left < 15*time.Second || risk.Left > 21*time.Second || risk.Fence != lease.Fence() {
			t.Errorf("%+v", risk)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestLease_Wanted(t *testing.T) {
	t.Run("by a waiter of this process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate())
			lease := taken(t, l, "x")
			if lease.Wanted() {
				t.Error("wanted, but no call waits")
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = l.Lock(ctx, "x") }()
			synctest.Wait()
			if !lease.Wanted() {
				t.Error("not wanted")
			}
			cancel()
			synctest.Wait()
			if lease.Wanted() {
				t.Error("still wanted")
			}
		})
	})
	t.Run("by a waiter elsewhere, after a renewal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l, other := lockerOn(t, w), lockerOn(t, w)
			lease := taken(t, l, "x")
			go func() { _, _ = other.Lock(t.Context(), "x") }()
			synctest.Wait()
			time.Sleep(15 * time.Second)
			if !lease.Wanted() {
				t.Error("not wanted")
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if lease.Wanted() {
				t.Error("wanted after Unlock")
			}
			synctest.Wait()
		})
	})
}

// A hand-off ends the lease, not the claim.
func TestLease_handedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockerOn(t, newGate())
		old := taken(t, l, "x")
		next := make(chan *distlock.Lease, 1)
		go func() { lease, _ := l.Lock(t.Context(), "x"); next <- lease }()
		synctest.Wait()
		if err := old.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		lease := <-next
		if lease.Fence() != old.Fence()+1 {
			t.Fatalf("fence %d after %d: it was not handed off", lease.Fence(), old.Fence())
		}
		if old.Valid(0) || old.Err() == nil || !old.Until().IsZero() || old.Wanted() || !isClosed(old.Done()) {
			t.Error("the old lease has not ended")
		}
		wants(t, old.Extend(t.Context(), time.Hour), distlock.ErrReleased)
		if _, err := old.Detach(t.Context()); !errors.Is(err, distlock.ErrReleased) {
			t.Errorf("a handle of another's claim: %v", err)
		}
		if err := old.Unlock(t.Context()); err != nil || lease.Err() != nil {
			t.Errorf("%v, %v", err, lease.Err())
		}
	})
}

func TestLease_facts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockerOn(t, newGate())
		a := taken(t, l, "x")
		if a.Name() != "x" || a.Mode() != distlock.ModeExclusive || a.Fence() == 0 || a.Fence() >= driver.MaxFence {
			t.Errorf("%s %s %d", a.Name(), a.Mode(), a.Fence())
		}
		r, err := l.TryRLock(t.Context(), "y")
		if err != nil || r.Mode() != distlock.ModeShared {
			t.Errorf("%v %v", r.Mode(), err)
		}
		_ = a.Unlock(t.Context())
		if b := taken(t, l, "x"); b.Fence() <= a.Fence() {
			t.Errorf("fence %d after %d", b.Fence(), a.Fence())
		}
		if a.Name() != "x" || a.Fence() == 0 || !a.Until().IsZero() || a.Valid(0) {
			t.Error("a lease that has ended lost its facts")
		}
	})
}

// fragile is a store whose claims end with its connection, and that reports their loss.
type fragile struct {
	*gate
	losses chan []driver.ID
}

func (f fragile) Losses(context.Context) <-chan []driver.ID { return f.losses }

// A loss that the store reports ends the lease at once, and no other lease.
func TestLease_lost_reportedByTheStore(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		store := fragile{g, make(chan []driver.ID)}
		var ids []driver.ID
		g.acquire = func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error) {
			ids = append(ids, r.ID)
			return next(ctx, r)
		}
		l, err := distlock.New(store)
		if err != nil {
			t.Fatal(err)
		}
		a, b := must(t)(l.Lock(t.Context(), "a")), must(t)(l.Lock(t.Context(), "b", distlock.NoRenewal()))
		began := time.Now()
		store.losses <- []driver.ID{{Key: "a", Owner: "another's"}, {Key: "c", Owner: "nobody's"}, ids[1]}
		<-b.Done()
		wants(t, b.Err(), distlock.ErrLost)
		wants(t, b.Unlock(t.Context()), distlock.ErrLost)
		if d := time.Since(began); d != 0 || a.Err() != nil {
			t.Errorf("reported after %v; the other lease: %v", d, a.Err())
		}
		free(t, a)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLease_Context(t *testing.T) {
	t.Run("ends with its parent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lease := taken(t, lockerOn(t, newGate()), "x")
			parent, cancel := context.WithCancelCause(t.Context())
			ctx := lease.Context(parent)
			mine := errors.New("mine")
			cancel(mine)
			<-ctx.Done()
			wants(t, context.Cause(ctx), mine)
			if err := lease.Err(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("ends with Unlock, and so do its children", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lease := taken(t, lockerOn(t, newGate()), "x")
			ctx := lease.Context(t.Context())
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			grandchild := lease.Context(child)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, c := range []context.Context{ctx, child, grandchild, lease.Context(t.Context())} {
				if !isClosed(c.Done()) || !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), distlock.ErrReleased) {
					t.Errorf("%v %v", c.Err(), context.Cause(c))
				}
			}
		})
	})
	t.Run("ends before another can hold the lock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate())
			lease := taken(t, l, "x")
			ctx := lease.Context(t.Context())
			go func() {
				next, err := l.Lock(t.Context(), "x")
				if err != nil || !isClosed(ctx.Done()) {
					t.Errorf("%v: the work of the holder before has not ended", err)
					return
				}
				_ = next.Unlock(t.Context())
			}()
			synctest.Wait()
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		})
	})
	t.Run("carries values, the deadline and the innermost lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			type key struct{}
			l := lockerOn(t, newGate())
			a, b := taken(t, l, "a"), taken(t, l, "b")
			parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), time.Minute)
			defer cancel()
			ctx := a.Context(parent)
			if distlock.FromContext(parent) != nil || distlock.FromContext(noContext) != nil {
				t.Error("a lease in a context without one")
			}
			inner := b.Context(context.WithValue(ctx, key{}, 8))
			deadline, _ := inner.Deadline()
			if distlock.FromContext(ctx) != a || distlock.FromContext(inner) != b || inner.Value(key{}) != 8 || ctx.Value(key{}) != 7 ||
				time.Until(deadline) != time.Minute {
				t.Error("lost on the way")
			}
			if distlock.FromContext(context.WithoutCancel(inner)) != b {
				t.Error("lost without cancel")
			}
		})
	})
	t.Run("of a lease that has expired", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			ctx := lease.Context(t.Context())
			time.Sleep(time.Minute)
			wantLoss(t, context.Cause(ctx), distlock.LossExpired)
		})
	})
	t.Run("panics without a parent", func(t *testing.T) {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		l := lockerOn(t, mem.New())
		taken(t, l, "x").Context(noContext)
	})
}

// A lease keeps no reference to contexts that have ended, nor to their values.
func TestLease_Context_leavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		lease := taken(t, lockerOn(t, newGate()), "x")
		var carried []weak.Pointer[[1024]byte]
		for range 1000 {
			v := new([1024]byte)
			carried = append(carried, weak.Make(v))
			parent, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, v))
			_ = lease.Context(parent)
			cancel()
		}
		synctest.Wait()
		runtime.GC()
		left := 0
		for _, w := range carried {
			if w.Value() != nil {
				left++
			}
		}
		if left > 1 { // the last one may still be on the stack
			t.Errorf("%d of %d contexts are left", left, len(carried))
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A context of several leases has ended for the first caller that looks at it after any of the
// leases was lost, also if no timer and no other goroutine has reported the loss yet.
func TestLease_Context_nested(t *testing.T) {
	for _, lost := range []string{"outer", "middle", "inner"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}
				defer slow.release()
				var ctx, detached context.Context = t.Context(), nil
				for _, name := range []string{"outer", "middle", "inner"} {
					var opts []distlock.Option
					if name == lost { // the observer blocks the goroutine that would report the loss
						opts = []distlock.Option{distlock.TTL(time.Second), distlock.MaxHold(10 * time.Second), distlock.Observe(slow.observe)}
					}
					lease := taken(t, lockerOn(t, newGate(), opts...), name)
					detached = lease.Context(context.WithoutCancel(ctx))
					ctx = lease.Context(ctx)
					var cancel context.CancelFunc
					ctx, cancel = context.WithCancel(ctx) // programs add their own contexts in between
					defer cancel()
					if name == "inner" {
						ctx = lease.Context(ctx)
					}
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if isClosed(ctx.Done()) {
					t.Fatal("the loss was reported: the observer does not delay it")
				}
				if ctx.Err() == nil || !isClosed(ctx.Done()) {
					t.Error("the context has not ended with the lease")
				}
				wantLoss(t, context.Cause(ctx), distlock.LossMaxHold)
				if lost != "inner" && detached.Err() != nil {
					t.Error("a context that was cut off from the lease ended with it")
				}
			})
		})
	}
}

// A context that was not passed on has no lease. Code that looks for a lease in it gets an error or
// a fence that guards refuse, and does not panic.
func TestLease_none(t *testing.T) {
	for name, lease := range map[string]*distlock.Lease{"nil": distlock.FromContext(t.Context()), "zero": new(distlock.Lease)} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			wants(t, lease.Err(), distlock.ErrReleased)
			wants(t, lease.Unlock(ctx), distlock.ErrReleased)
			wants(t, lease.Extend(ctx, time.Second), distlock.ErrReleased)
			_, err := lease.Detach(t.Context())
			wants(t, err, distlock.ErrReleased)
			_, err = lease.Downgrade(ctx)
			wants(t, err, distlock.ErrReleased)
			if lease.Valid(0) || lease.Wanted() || !lease.Until().IsZero() || !isClosed(lease.Done()) {
				t.Errorf("valid %v, wanted %v, until %v, done %v", lease.Valid(0), lease.Wanted(), lease.Until(), isClosed(lease.Done()))
			}
			if lease.Fence() != 0 || lease.Name() != "" || lease.Mode() != "" || fmt.Sprintf("%v %+v", lease, lease) != "no lease no lease" {
				t.Errorf("fence %d, name %q, mode %q, %v", lease.Fence(), lease.Name(), lease.Mode(), lease)
			}
			work := lease.Context(ctx)
			if !isClosed(work.Done()) || !errors.Is(context.Cause(work), distlock.ErrReleased) || distlock.FromContext(work) != nil {
				t.Errorf("%v, %v", work.Err(), context.Cause(work))
			}
			if p, err := fence.Of(lease); !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("a guard takes %v, %v", p, err)
			}
			if p, err := distlock.ParseProof(lease.Proof()); invalidWhat(err) != "proof" {
				t.Errorf("the proof is %v, %v", p, err)
			}
		})
	}
}

// All calls that end or change a lease run at the same time. In any order, each grant has one end,
// no two leases are held together, and nothing is left behind.
func TestLease_endsOnce(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endOnce(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func endOnce(t *testing.T, r *rand.Rand) {
	w, p := newGate(), &tape{}
	l := lockerOn(t, w, distlock.Observe(p.observe), distlock.TTL(time.Second), distlock.MaxHold(2*time.Second))
	pause := func() time.Duration { return time.Duration(r.IntN(2500)) * time.Millisecond }
	slow := time.Duration(r.IntN(4)) * 40 * time.Millisecond
	w.on(func(context.Context, string) error { time.Sleep(slow); return nil }, nil)

	lease := taken(t, l, "x")
	ctx := lease.Context(t.Context())
	var wg sync.WaitGroup
	later := func(f func()) {
		d := pause()
		wg.Go(func() { time.Sleep(d); f() })
	}
	var mu sync.Mutex
	holders := []*distlock.Lease{lease}
	broken := false // then the holder before does not know yet
	hold := func(next *distlock.Lease) {
		mu.Lock()
		for _, h := range holders {
			if h.Err() == nil && !broken {
				t.Error("two hold it")
			}
		}
		holders = append(holders, next)
		mu.Unlock()
		time.Sleep(10 * time.Millisecond)
		_ = next.Unlock(t.Context())
	}
	for range 3 { // they get the lock by a hand-off, or wait until it is free
		later(func() {
			if next, err := l.Lock(t.Context(), "x"); err == nil {
				hold(next)
			}
		})
	}
	var handle distlock.Handle
	deeds := []func(){
		func() { _ = lease.Unlock(t.Context()) },
		func() { _ = lease.Unlock(t.Context()) },
		func() { _ = lease.Extend(t.Context(), 100*time.Millisecond) },
		func() { _ = lease.Extend(t.Context(), time.Minute) },
		func() {
			if h, err := lease.Detach(t.Context()); err == nil {
				mu.Lock()
				handle = h
				mu.Unlock()
			}
		},
		func() { _ = l.ReleaseAll(t.Context()) },
		func() { w.cut(); time.Sleep(300 * time.Millisecond); w.mend() },
		func() { w.deafen("release"); time.Sleep(300 * time.Millisecond); w.mend() },
		func() {
			mu.Lock()
			broken = true
			mu.Unlock()
			_, _ = driver.Break(t.Context(), w, "x", 0, "")
		},
		func() { _ = lease.Context(t.Context()).Err() },
		func() { _ = l.Close(t.Context()) },
	}
	r.Shuffle(len(deeds), func(i, j int) { deeds[i], deeds[j] = deeds[j], deeds[i] })
	for _, deed := range deeds[:5] {
		later(deed)
	}
	wg.Wait()
	w.mend()
	first := lease.Unlock(t.Context())
	if again := lease.Unlock(t.Context()); again != first { //nolint:errorlint // the same value
		t.Errorf("Unlock returned %v, then %v", first, again)
	}
	if lease.Err() == nil || lease.Valid(0) || !isClosed(lease.Done()) || !isClosed(ctx.Done()) || context.Cause(ctx) == nil {
		t.Error("it has not ended")
	}
	if err := lease.Err(); !errors.Is(err, distlock.ErrLost) && !errors.Is(err, distlock.ErrReleased) {
		t.Errorf("it ended with %v", err)
	}
	_ = l.Close(t.Context())
	synctest.Wait()

	ends := map[uint64]int{}
	for _, e := range p.all(distlock.EventGranted) {
		ends[e.Fence]++
	}
	for _, e := range p.all(distlock.EventReleased, distlock.EventHandedOff, distlock.EventDetached, distlock.EventLost) {
		ends[e.Fence]--
	}
	for f, n := range ends {
		if n != 0 {
			t.Errorf("fence %d: %d ends are missing: %q", f, n, p.story())
		}
	}
	time.Sleep(2 * time.Minute)
	if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) > 0 {
		t.Errorf("left behind: %+v", claims)
	}
	if handle != (distlock.Handle{}) && !slices.Contains(p.story(), distlock.EventDetached) {
		t.Error("a handle, but no event of it")
	}
}
