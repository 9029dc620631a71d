package distlock_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
)

func TestLease_Extend(t *testing.T) {
	t.Run("longer and shorter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.TTL(10*time.Second), distlock.NoRenewal()), "x")
			for _, d := range []time.Duration{time.Hour, time.Second, time.Minute} {
				if err := lease.Extend(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				if left := time.Until(lease.Until()); left != trustOf(d) {
					t.Errorf("%v left after Extend(%v)", left, d)
				}
				if !lease.Valid(trustOf(d)-1) || lease.Valid(trustOf(d)) {
					t.Errorf("Valid is wrong after Extend(%v)", d)
				}
				claims, _ := w.Store.Show(t.Context(), "x")
				if len(claims) != 1 || claims[0].Left != d {
					t.Errorf("the store has %+v after Extend(%v)", claims, d)
				}
			}
		})
	})
	t.Run("is the TTL from then on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.TTL(time.Second)), "x")
			if err := lease.Extend(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			n := w.count("renew")
			time.Sleep(24 * time.Hour)
			if got := w.count("renew") - n; got < 60 || got > 90 {
				t.Errorf("%d renewals a day", got)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("refused without a call of the store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newFlakyStore(), &tape{}
			w.f.MinTTL, w.f.MaxTTL = time.Second, time.Minute
			lease := taken(t, lockerOn(t, w, distlock.LockDelay(10*time.Second), distlock.Observe(p.observe)), "x")
			left := lease.Until()
			for _, d := range []time.Duration{-1, 0, 1, 99 * time.Millisecond, 999 * time.Millisecond, 51 * time.Second, time.Hour, 25 * time.Hour, 1<<63 - 1} {
				wantInvalid(t, lease.Extend(t.Context(), d), "TTL")
			}
			wantErr(t, lease.Extend(noContext, time.Minute), distlock.ErrInvalid)
			dead, cancel := context.WithCancel(t.Context())
			cancel()
			wantErr(t, lease.Extend(dead, 2*time.Second), context.Canceled)
			if n := w.count("renew"); n != 0 || !lease.Until().Equal(left) {
				t.Errorf("%d renewals, until %v", n, lease.Until())
			}
			wantStory(t, p, distlock.EventGranted)
		})
	})
	t.Run("of unknown outcome shortens the trust", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			w.deafen("renew")
			err := lease.Extend(t.Context(), time.Second)
			wantErr(t, err, distlock.ErrUnknown)
			if left := time.Until(lease.Until()); left != trustOf(time.Second) {
				t.Errorf("%v left", left)
			}
			<-lease.Done()
			wantErr(t, lease.Extend(t.Context(), time.Second), distlock.ErrLost)
		})
	})
	t.Run("of unknown outcome does not lengthen it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.NoRenewal()), "x")
			w.deafen("renew")
			wantErr(t, lease.Extend(t.Context(), time.Hour), distlock.ErrUnknown)
			if left := time.Until(lease.Until()); left != trustOf(30*time.Second) {
				t.Errorf("%v left", left)
			}
		})
	})
	t.Run("ends with its context and within the trust", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.TTL(2*time.Second), distlock.NoRenewal()), "x")
			w.freeze()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			begin := time.Now()
			wantErr(t, lease.Extend(ctx, time.Minute), distlock.ErrUnknown, context.DeadlineExceeded)
			if took := time.Since(begin); took != time.Second {
				t.Errorf("it took %v", took)
			}
			wantErr(t, lease.Extend(t.Context(), time.Minute), distlock.ErrLost)
			if took := time.Since(begin); took != trustOf(2*time.Second) {
				t.Errorf("it took %v", took)
			}
			w.mend()
		})
	})
	t.Run("takes at most 5 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w, distlock.TTL(time.Minute), distlock.NoRenewal()), "x")
			w.freeze()
			begin := time.Now()
			wantErr(t, lease.Extend(t.Context(), time.Minute), distlock.ErrUnknown)
			if took := time.Since(begin); took != 5*time.Second {
				t.Errorf("it took %v", took)
			}
			w.mend()
		})
	})
	t.Run("after the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newFlakyStore()
			lease := taken(t, lockerOn(t, w), "x")
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantErr(t, lease.Extend(t.Context(), time.Minute), distlock.ErrReleased)
			if n := w.count("renew"); n != 0 {
				t.Errorf("%d renewals", n)
			}
		})
	})
	t.Run("does not reach a lease that has been handed off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newFlakyStore())
			lease := taken(t, l, "x")
			next := make(chan *distlock.Lease, 1)
			go func() {
				lease, err := l.Lock(t.Context(), "x")
				if err != nil {
					t.Error(err)
				}
				next <- lease
			}()
			synctest.Wait()
			// Extend looks at the context between its checks and the call: Unlock runs at this
			// moment.
			hop := &hopContext{Context: t.Context(), hop: func() { _ = lease.Unlock(t.Context()) }}
			wantErr(t, lease.Extend(hop, 100*time.Millisecond), distlock.ErrReleased)
			if left := time.Until((<-next).Until()); left < time.Second {
				t.Errorf("the next holder has %v left", left)
			}
		})
	})
	t.Run("keeps the lease from being handed off", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, p := newFlakyStore(), &tape{}
			l := lockerOn(t, w, distlock.Observe(p.observe))
			lease := taken(t, l, "x")
			next := make(chan *distlock.Lease, 1)
			go func() {
				lease, _ := l.Lock(t.Context(), "x")
				next <- lease
			}()
			synctest.Wait()
			if err := lease.Extend(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := time.Until((<-next).Until()); left > 30*time.Second {
				t.Errorf("the next holder has %v left, more than its TTL", left)
			}
		})
	})
}

// A hopContext runs a function once, when Err is called.
type hopContext struct {
	context.Context
	once sync.Once
	hop  func()
}

func (c *hopContext) Err() error {
	c.once.Do(c.hop)
	return c.Context.Err()
}

func TestLease_fixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyStore()
		lease := taken(t, lockerOn(t, w, distlock.NoRenewal(), distlock.TTL(10*time.Second)), "x")
		for range 10 {
			time.Sleep(5 * time.Second)
			if err := lease.Extend(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		<-lease.Done()
		if got := time.Since(begin); got != trustOf(10*time.Second) {
			t.Errorf("lost after %v", got)
		}
		wantLoss(t, lease.Err(), distlock.LossExpired)
		if n := w.count("renew"); n != 10 {
			t.Errorf("%d renewals, want those of Extend", n)
		}
	})
}
