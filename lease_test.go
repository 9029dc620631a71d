package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func TestLease_lost(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, time.Hour} {
		for _, how := range []string{"cut", "frozen"} {
			t.Run(fmt.Sprint("at the end of its trust, store ", how, ", ", ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newFlakyStore()
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
					wantErr(t, ctx.Err(), context.Canceled)
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
		l := lockerOn(t, newFlakyStore(), distlock.TTL(time.Second), distlock.MaxHold(10*time.Second),
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
		wantErr(t, lease.Err(), distlock.ErrMaxHold)
		wantLoss(t, context.Cause(ctx), distlock.LossMaxHold)
		wantErr(t, lease.Unlock(t.Context()), distlock.ErrMaxHold)
		if !isClosed(lease.Done()) {
			t.Error("not done after Unlock")
		}
		slow.release()
		synctest.Wait()
		wantErr(t, lease.Err(), distlock.ErrMaxHold)
		wantStory(t, p, distlock.EventGranted, distlock.EventLost)
	})
}

func TestLease_lost_inTheStore(t *testing.T) {
	t.Run("taken away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newFlakyStore(), &tape{}
			l := lockerOn(t, w, distlock.Observe(p.observe))
			lease := taken(t, l, "x")
			for _, owner := range w.secrets() {
				_ = w.Store.Release(t.Context(), driver.ID{Key: "x", Owner: owner})
			}
			<-lease.Done()
			wantLoss(t, lease.Err(), distlock.LossTaken)
			wantErr(t, lease.Err(), driver.ErrNotHeld)
			wantErr(t, lease.Unlock(t.Context()), distlock.ErrLost)
			if n := w.count("release"); n != 0 {
				t.Errorf("%d releases after a loss", n)
			}
		})
	})
	t.Run("broken, with the reason", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
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
			w, p := newFlakyStore(), &tape{}
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
		w, p := newFlakyStore(), &tape{}
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
		wantErr(t, risk.Err, errCut)
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
			l := lockerOn(t, newFlakyStore())
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
			w := newFlakyStore()
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
		l := lockerOn(t, newFlakyStore())
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
		wantErr(t, old.Extend(t.Context(), time.Hour), distlock.ErrReleased)
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
		l := lockerOn(t, newFlakyStore())
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
