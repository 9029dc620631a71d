package distlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func TestLease_Unlock(t *testing.T) {
	t.Run("of a lost lease returns the loss each time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			<-lease.Done()
			err := lease.Unlock(t.Context())
			wantLoss(t, err, distlock.LossExpired)
			if again := lease.Unlock(t.Context()); again != err { //nolint:errorlint // the same value
				t.Errorf("again %v", again)
			}
			wants(t, lease.Err(), distlock.ErrLost)
			if n := w.count("release"); n != 0 {
				t.Errorf("%d releases after a loss", n)
			}
		})
	})
	t.Run("twice does nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			lease := taken(t, l, "x")
			for range 2 {
				if err := lease.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			wants(t, lease.Err(), distlock.ErrReleased)
			taken(t, l, "x")
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
				t.Errorf("a stale Unlock freed the lock: %v", err)
			}
			if n := w.count("release"); n != 1 {
				t.Errorf("%d releases", n)
			}
		})
	})
	t.Run("by many at once is one release with one answer", func(t *testing.T) {
		for _, how := range []string{"well", "cut", "broken"} {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				lease := taken(t, lockerOn(t, w), "x")
				w.on(func(context.Context, string) error {
					time.Sleep(time.Second)
					if how == "cut" {
						return errCut
					}
					return nil
				}, nil)
				if how == "broken" {
					_, _ = driver.Break(t.Context(), w, "x", 0, "")
				}
				answers := make([]error, 100)
				var wg sync.WaitGroup
				for i := range answers {
					wg.Go(func() { answers[i] = lease.Unlock(t.Context()) })
				}
				wg.Wait()
				for _, a := range answers {
					if a != answers[0] { //nolint:errorlint // the same value
						t.Errorf("%s: answers %v and %v", how, answers[0], a)
					}
				}
				if (answers[0] == nil) != (how == "well") {
					t.Errorf("%s: %v", how, answers[0])
				}
				if n := w.count("release"); n != 1 && how != "cut" || n > 5 { // one call repeats it for 5 s
					t.Errorf("%s: %d releases", how, n)
				}
			})
		}
	})
	t.Run("is sent although the context has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate())
			lease := taken(t, l, "x")
			dead, cancel := context.WithCancel(t.Context())
			cancel()
			if err := lease.Unlock(dead); err != nil {
				t.Fatal(err)
			}
			taken(t, l, "x")
		})
	})
	t.Run("is not delayed by a frozen store", func(t *testing.T) {
		for ttl, most := range map[time.Duration]time.Duration{
			time.Minute: 5 * time.Second, 30 * time.Second: 5 * time.Second, time.Second: 900 * time.Millisecond,
			100 * time.Millisecond: 100 * time.Millisecond,
		} {
			synctest.Test(t, func(t *testing.T) {
				w := newGate()
				lease := taken(t, lockerOn(t, w, distlock.TTL(ttl)), "x")
				w.freeze()
				time.Sleep(ttl / 2) // a renewal hangs
				begin := time.Now()
				err := lease.Unlock(t.Context())
				wants(t, err, distlock.ErrUnknown)
				if took := time.Since(begin); took > most {
					t.Errorf("TTL %v: it took %v", ttl, took)
				}
				w.mend()
			})
		}
	})
	t.Run("can be called again when it was not answered", func(t *testing.T) {
		for _, verb := range []string{"release", "none"} { // lost on the way back, or on the way there
			synctest.Test(t, func(t *testing.T) {
				w, p := newGate(), &tape{}
				l := lockerOn(t, w, distlock.Observe(p.observe))
				lease := taken(t, l, "x")
				if w.deafen(verb); verb == "none" {
					w.cut()
				}
				err := lease.Unlock(t.Context())
				wants(t, err, distlock.ErrUnknown, errCut)
				wants(t, lease.Unlock(t.Context()), distlock.ErrUnknown)
				wants(t, lease.Err(), distlock.ErrReleased)
				if _, err := lease.Detach(t.Context()); !errors.Is(err, distlock.ErrReleased) {
					t.Errorf("Handle after Unlock: %v", err)
				}
				w.mend()
				before := w.count("release")
				for range 2 {
					if err := lease.Unlock(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if n := w.count("release"); n != before+1 {
					t.Errorf("%d releases, want one more than %d", n, before)
				}
				wantStory(t, p, distlock.EventGranted, distlock.EventReleased)
				taken(t, l, "x")
			})
		}
	})
	t.Run("returns nil when the lock expired after a release without an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w), "x")
			w.cut()
			wants(t, lease.Unlock(t.Context()), distlock.ErrUnknown)
			w.mend()
			time.Sleep(time.Minute)
			if err := lease.Unlock(t.Context()); err != nil { // it was held when the work ended
				t.Fatal(err)
			}
		})
	})
	t.Run("reports when nothing was changed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w), "x")
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			err := lease.Unlock(t.Context())
			wants(t, err, distlock.ErrUnavailable)
			if errors.Is(err, distlock.ErrUnknown) {
				t.Error("unknown although it is definite")
			}
			w.mend()
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("ends all renewing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			lease := taken(t, lockerOn(t, w, distlock.TTL(time.Second)), "x")
			w.on(func(_ context.Context, verb string) error {
				if verb == "renew" {
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			}, nil)
			time.Sleep(400 * time.Millisecond)
			for w.count("renew") == 0 {
				time.Sleep(time.Millisecond)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := w.count("renew")
			if n != 1 {
				t.Fatalf("%d renewals, want one under way", n)
			}
			time.Sleep(time.Hour)
			if w.count("renew") != n {
				t.Error("renewed after Unlock")
			}
		})
	})
}

// A renewal and a release at the same time leave nothing behind, in any order.
func TestLease_Unlock_duringRenewal(t *testing.T) {
	for i := range 200 {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w, distlock.TTL(300*time.Millisecond))
			lease := taken(t, l, "x")
			w.on(func(_ context.Context, verb string) error {
				time.Sleep(time.Duration(i%7) * time.Millisecond)
				return nil
			}, nil)
			time.Sleep(80*time.Millisecond + time.Duration(i)*200*time.Microsecond)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) != 0 {
				t.Fatalf("left behind: %+v", claims)
			}
		})
	}
}

// A loss that was not reported yet comes before Unlock, also for the contexts.
func TestLease_Unlock_lostUnreported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newGate(), &tape{}
		slow := &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}
		defer slow.release()
		l := lockerOn(t, w, distlock.TTL(time.Second), distlock.Observe(p.observe), distlock.Observe(slow.observe))
		lease := taken(t, l, "x")
		ctx := lease.Context(t.Context())
		time.Sleep(500 * time.Millisecond) // the observer blocks in the event of the first renewal
		w.cut()
		time.Sleep(time.Minute)
		wantLoss(t, lease.Unlock(t.Context()), distlock.LossExpired)
		if !isClosed(ctx.Done()) {
			t.Error("the context has not ended")
		}
		wantLoss(t, context.Cause(ctx), distlock.LossExpired)
		wantLoss(t, lease.Err(), distlock.LossExpired)
		if n := w.count("release"); n != 0 {
			t.Errorf("%d releases after a loss", n)
		}
		slow.release()
		synctest.Wait()
		if ends := p.all(distlock.EventLost, distlock.EventReleased); len(ends) != 1 || ends[0].Type != distlock.EventLost {
			t.Errorf("it ended by %+v", ends)
		}
	})
}

// A loss that is reported while Unlock waits for a renewal to return is not reported again.
func TestLease_Unlock_lostMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newGate(), &tape{}
		slow := &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}
		defer slow.release()
		l := lockerOn(t, w, distlock.TTL(time.Second), distlock.Observe(p.observe), distlock.Observe(slow.observe))
		lease := taken(t, l, "x")
		time.Sleep(500 * time.Millisecond)
		w.on(func(context.Context, string) error { time.Sleep(time.Minute); return errCut }, nil) // ignores its context
		time.Sleep(10 * time.Second)
		go func() {
			time.Sleep(50 * time.Millisecond)
			slow.release()
		}()
		begin := time.Now()
		wantLoss(t, lease.Unlock(t.Context()), distlock.LossExpired)
		if took := time.Since(begin); took != 100*time.Millisecond {
			t.Errorf("it took %v: does it wait for the renewal?", took)
		}
		synctest.Wait()
		if n := len(p.all(distlock.EventLost, distlock.EventReleased)); n != 1 {
			t.Errorf("%d events of the end", n)
		}
		w.mend()
	})
}

// Unlock of a lease whose loss was reported waits neither for the store nor for a renewal.
func TestLease_Unlock_lostIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		lease := taken(t, lockerOn(t, w, distlock.TTL(time.Second)), "x")
		w.on(func(context.Context, string) error { time.Sleep(time.Minute); return errCut }, nil)
		<-lease.Done()
		begin := time.Now()
		if err := lease.Unlock(t.Context()); err != lease.Err() { //nolint:errorlint // the same value
			t.Errorf("%v, want %v", err, lease.Err())
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %v", took)
		}
		w.mend()
	})
}

// A released lease is not renewed any more.
func TestLease_Unlock_endsRenewing(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		l := g.locker(t)
		lease := must(t)(l.Lock(t.Context(), "k"))
		time.Sleep(time.Minute)
		if g.count("renew") == 0 {
			t.Error("it was not renewed while it was held")
		}
		free(t, lease)
		g.reset()
		time.Sleep(time.Hour)
		if n := g.count("renew"); n > 0 {
			t.Errorf("%d renewals after Unlock", n)
		}
		g.empty(t, l)
	})
}

// A release that fails is repeated: the server may have closed the connection, and the next
// connection works.
func TestLease_Unlock_repeats(t *testing.T) {
	for _, c := range []struct {
		name  string
		first func(w *gate, next func()) // the fate of the first release; next mends the store
		want  error
	}{
		{"request lost", func(w *gate, next func()) {
			w.on(func(context.Context, string) error { next(); return errCut }, nil)
		}, nil},
		{"answer lost", func(w *gate, next func()) {
			w.on(nil, func(context.Context, string) error { next(); return errCut })
		}, nil},
		{"answer lost, and another holds it since", func(w *gate, next func()) {
			w.on(nil, func(ctx context.Context, _ string) error {
				next()
				_, err := w.Store.Acquire(ctx, driver.Request{ID: driver.ID{Key: "x", Owner: "other"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute})
				return errors.Join(errCut, err)
			})
		}, nil},
		{"unavailable", func(w *gate, next func()) {
			w.on(func(context.Context, string) error { next(); return driver.ErrUnavailable }, nil)
		}, nil},
		{"unavailable for two seconds", func(w *gate, next func()) {
			time.AfterFunc(2*time.Second, next)
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
		}, nil},
		{"request lost, and another holds it since long", func(w *gate, next func()) {
			_, _ = driver.Break(context.Background(), w, "x", 0, "")
			_, _ = w.Store.Acquire(context.Background(), driver.Request{ID: driver.ID{Key: "x", Owner: "other"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute})
			time.Sleep(time.Second)
			w.on(func(context.Context, string) error { next(); return errCut }, nil)
		}, nil}, // the store cannot distinguish it from the claim before
		{"unavailable, and broken before", func(w *gate, next func()) {
			_, _ = driver.Break(context.Background(), w, "x", 0, "")
			w.on(func(context.Context, string) error { next(); return driver.ErrUnavailable }, nil)
		}, distlock.ErrLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, p := newGate(), &tape{}
				lease := taken(t, lockerOn(t, w, distlock.Observe(p.observe)), "x")
				var at time.Time
				c.first(w, func() { at = time.Now(); w.mend() })
				if err := lease.Unlock(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("Unlock: %v, want %v", err, c.want)
				}
				if late := time.Since(at); late > 300*time.Millisecond {
					t.Errorf("it came %v after the store could answer", late)
				}
				kind := distlock.EventReleased
				if c.want != nil {
					kind = distlock.EventLost
				}
				wantStory(t, p, distlock.EventGranted, kind)
				claims, _ := w.Store.Show(t.Context(), "x")
				for _, claim := range claims {
					if claim.Owner != driver.Tag("other") {
						t.Errorf("left behind: %+v", claim)
					}
				}
			})
		})
	}
}

// The store makes the first release, but its answer is lost, and it refuses all later ones. The
// error must not say that nothing was changed.
func TestLease_Unlock_repeats_unknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		lease := taken(t, lockerOn(t, w), "x")
		w.on(nil, func(context.Context, string) error {
			w.on(func(context.Context, string) error { return driver.ErrUnavailable }, nil)
			return errCut
		})
		if err := lease.Unlock(t.Context()); !errors.Is(err, distlock.ErrUnknown) || errors.Is(err, distlock.ErrUnavailable) {
			t.Errorf("%v, want that the outcome is unknown", err)
		}
		w.expect(t, 0, 0)
		w.mend()
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A repeated release of a reader does not mistake another reader, which has held the name for a
// long time, for its successor.
func TestLease_Unlock_repeats_reader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		for range 2 {
			lease, err := l.RLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			w.on(nil, func(context.Context, string) error { w.mend(); return errCut })
			if err := lease.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			if lease, err = l.RLock(t.Context(), "x"); err != nil { // for the next round
				t.Fatal(err)
			}
			defer func() { _ = lease.Unlock(t.Context()) }()
		}
	})
}

// Unlock may take as long as the store keeps the claim, also shortly before MaxHold.
func TestLease_Unlock_beforeMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		lease := taken(t, lockerOn(t, w, distlock.MaxHold(time.Second)), "x")
		w.on(func(ctx context.Context, _ string) error {
			select {
			case <-time.After(150 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil)
		time.Sleep(950 * time.Millisecond)
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) != 0 {
			t.Errorf("left behind: %+v", claims)
		}
	})
}

// Unlock before the end of MinHold renews for the rest of that time. If the renewal fails, it is
// repeated until that time has ended. Then Unlock releases.
func TestLease_Unlock_shortestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		lease := taken(t, lockerOn(t, w, distlock.MinHold(time.Second)), "x")
		w.on(func(_ context.Context, verb string) error {
			if verb == "renew" {
				time.Sleep(time.Millisecond)
				return errCut
			}
			return nil
		}, nil)
		time.Sleep(950 * time.Millisecond)
		begin := time.Now()
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		// The last pause begins before the end of MinHold, and takes up to 250 ms.
		if took := time.Since(begin); took < 50*time.Millisecond || took > 310*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) != 0 {
			t.Errorf("left behind: %+v", claims)
		}
	})
}
