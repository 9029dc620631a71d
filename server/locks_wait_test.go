package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/store/mem"
)

const owner = "0123456789abcdefghijkl"

// wait calls Acquire, and returns the answer and how long it took.
func wait(t *testing.T, c api.LocksClient, m *api.LocksAcquireRequest) (*api.LocksAcquireResponse, time.Duration) {
	t.Helper()
	began := time.Now()
	out, err := c.Acquire(t.Context(), m)
	if err != nil {
		t.Error(err)
		out = &api.LocksAcquireResponse{}
	}
	return out, time.Since(began)
}

// hold holds a key in the store, and returns a function that releases it.
func hold(t *testing.T, s driver.Store, ttl time.Duration) (release func()) {
	t.Helper()
	r := request("rival")
	r.TTL = ttl
	if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	return func() {
		if err := s.Release(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
	}
}

func show(t *testing.T, s driver.Store) (held, waiting int) {
	t.Helper()
	claims, err := driver.Show(t.Context(), s, "key")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if c.Waiting {
			waiting++
		} else {
			held++
		}
	}
	return held, waiting
}

// A waiting call is granted at the release. It waited until the call of the store that granted was
// sent, although the answer of the store took 3 s. The trust that follows ends before the claim.
func TestLocks_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alter()
		release := hold(t, s.Store, time.Minute)
		_, c, _ := people(t, s)
		var slow atomic.Bool
		s.acquire = func(context.Context) error {
			if slow.Load() {
				time.Sleep(3 * time.Second)
			}
			return nil
		}
		go func() {
			time.Sleep(10 * time.Second)
			slow.Store(true)
			release()
		}()
		out, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(20)})
		if !out.GetGranted() || took != 13*time.Second || out.GetWaited().AsDuration() != 10*time.Second || out.GetValidFor().AsDuration() != 29*time.Second {
			t.Errorf("%v after %v", out, took)
		}
	})
}

// Without a wake-up the call attempts from time to time, and right after the end of a TTL.
func TestLocks_wait_polls(t *testing.T) {
	for _, watch := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := alter()
			if !watch {
				s.Forward.Store = noWatch{s.Store}
			}
			hold(t, s.Store, 7*time.Second) // its holder is gone
			attempts := 0
			s.acquire = func(context.Context) error { attempts++; return nil }
			_, c, _ := people(t, s)
			out, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(20)})
			if !out.GetGranted() || took < 7*time.Second || took > 7*time.Second+5*time.Millisecond || attempts > 30 {
				t.Errorf("watch %v: %v after %v and %d attempts", watch, out, took, attempts)
			}
		})
	}
}

// noWatch is a store without wake-ups.
type noWatch struct{ driver.Store }

func (s noWatch) Inspect(ctx context.Context) (driver.Info, error) {
	return driver.Inspect(ctx, s.Store)
}
func (s noWatch) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return driver.Show(ctx, s.Store, key)
}

// One call waits for 25 s. A caller that calls again within 5 s keeps its position, and one that
// does not is out of the queue.
func TestLocks_again(t *testing.T) {
	for pause, kept := range map[time.Duration]bool{4900 * time.Millisecond: true, 5100 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New()
			release := hold(t, s, time.Hour)
			_, c, _ := people(t, s)
			first, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(60)})
			if took != 25*time.Second || first.GetGranted() || !first.GetAgain() || first.GetPosition() != 1 || first.GetHolder() == nil {
				t.Fatalf("%v after %v", first, took)
			}
			var second *api.LocksAcquireResponse
			done := make(chan struct{})
			go func() {
				defer close(done)
				second, _ = wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(20)})
			}()
			time.Sleep(pause)
			synctest.Wait()
			go func() {
				time.Sleep(5 * time.Second)
				release()
			}()
			again, took := wait(t, c, &api.LocksAcquireRequest{Handle: first.GetHandle(), Wait: seconds(8)})
			if again.GetGranted() != kept || kept && (took != 5*time.Second || again.GetWaited().AsDuration() != 5*time.Second) {
				t.Errorf("after a pause of %v: %v after %v", pause, again, took)
			}
			<-done
			if second.GetGranted() == kept {
				t.Errorf("after a pause of %v, the second: %v", pause, second)
			}
		})
	}
}

// After the whole wait the caller is refused, and its queue entry holds up nobody.
func TestLocks_wait_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		release := hold(t, s, time.Hour)
		_, c, _ := people(t, s)
		out, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(10), Owner: owner})
		if took != 10*time.Second || out.GetGranted() || out.GetAgain() || out.Position != nil {
			t.Fatalf("%v after %v", out, took)
		}
		time.Sleep(10 * time.Millisecond)
		release()
		if out, _ := wait(t, c, &api.LocksAcquireRequest{Name: "key"}); !out.GetGranted() {
			t.Errorf("%v", out)
		}
	})
}

// A server that drains ends its waits, and the caller keeps its position at the next server.
func TestLocks_drain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		release := hold(t, s, time.Hour)
		v, c, _ := people(t, s)
		_, next, _ := people(t, s)
		go func() {
			time.Sleep(7 * time.Second)
			v.Drain()
		}()
		out, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(20)})
		if took != 7*time.Second || out.GetGranted() || !out.GetAgain() || out.GetPosition() != 1 {
			t.Fatalf("%v after %v", out, took)
		}
		_, err := c.Acquire(t.Context(), &api.LocksAcquireRequest{Handle: out.GetHandle(), Wait: seconds(13)})
		if message.ReasonOf(err).GetKind() != api.Reason_KIND_DRAINING {
			t.Errorf("%v", err)
		}
		time.Sleep(4 * time.Second)
		go func() {
			time.Sleep(time.Second)
			release()
		}()
		if out, took := wait(t, next, &api.LocksAcquireRequest{Handle: out.GetHandle(), Wait: seconds(9)}); !out.GetGranted() || took != time.Second {
			t.Errorf("%v after %v", out, took)
		}
	})
}

// The server stops attempting for a caller that is gone. It releases nothing that the caller may
// have through another server: its entry ends by itself. An owner that the server made, and that
// nobody knows, leaves nothing behind.
func TestLocks_abandoned(t *testing.T) {
	for _, m := range []*api.LocksAcquireRequest{{Owner: owner}, {}} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New()
			release := hold(t, s, time.Hour)
			_, c, _ := people(t, s)
			m.Name, m.Wait = "key", seconds(20)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if out, err := c.Acquire(ctx, m); err == nil {
				t.Errorf("%v", out)
			}
			synctest.Wait()
			_, waiting := show(t, s)
			if known := m.GetOwner() != ""; (waiting == 1) != known {
				t.Errorf("owner %q: %d entries", m.GetOwner(), waiting)
			}
			time.Sleep(5100 * time.Millisecond)
			release()
			time.Sleep(time.Second)
			if held, waiting := show(t, s); held+waiting > 0 {
				t.Errorf("owner %q: %d claims and %d entries of a caller that is gone", m.GetOwner(), held, waiting)
			}
		})
	}
}

// A call that was abandoned while the store granted the claim: the claim of an owner that its
// caller knows stays, because the caller may have it through another server.
func TestLocks_abandoned_granted(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s := &answers{alter(), func() error { cancel(); return nil }}
			_, c, _ := people(t, s)
			m := &api.LocksAcquireRequest{Name: "key"}
			if known {
				m.Owner = owner
			}
			if out, err := c.Acquire(ctx, m); err == nil {
				t.Errorf("%v", out)
			}
			synctest.Wait()
			if held, _ := show(t, s); (held == 1) != known {
				t.Errorf("known %v: %d claims", known, held)
			}
		})
	}
}

// A server stops in the middle of a call, and its caller is granted the lock through another one,
// with the same owner. When the first server resumes, the caller still has the lock.
func TestLocks_stopped(t *testing.T) {
	for _, wake := range []time.Duration{4 * time.Second, 8 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			first := alter()
			_, c, _ := people(t, first)
			_, other, _ := people(t, first.Store)
			time.AfterFunc(2*time.Second, hold(t, first.Store, time.Hour))
			began := time.Now()
			first.acquire = func(context.Context) error {
				if at := time.Since(began); at > time.Second && at < wake {
					time.Sleep(wake - at)
				}
				return nil
			}
			m := &api.LocksAcquireRequest{Name: "key", Wait: seconds(20), Owner: owner}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if out, err := c.Acquire(ctx, m); err == nil {
				t.Errorf("%v", out)
			}
			sent := time.Now()
			out, _ := wait(t, other, m)
			until := sent.Add(out.GetWaited().AsDuration() + out.GetValidFor().AsDuration())
			for time.Now().Before(until) {
				if held, _ := show(t, first); held != 1 {
					t.Fatalf("the lock is gone %v before the end of its trust", time.Until(until))
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
}

// A failed attempt of an owner that nobody knows is undone, and one of a known owner is not.
func TestLocks_unknown(t *testing.T) {
	for _, known := range []bool{true, false} {
		s := &answers{alter(), func() error { return errors.New("the connection was lost") }}
		_, c, _ := people(t, s)
		m := &api.LocksAcquireRequest{Name: "key"}
		if known {
			m.Owner = owner
		}
		_, err := c.Acquire(t.Context(), m)
		if message.ReasonOf(err).GetKind() != api.Reason_KIND_UNKNOWN {
			t.Errorf("%v", err)
		}
		if held, _ := show(t, s); (held == 1) != known {
			t.Errorf("known %v: %d claims", known, held)
		}
	}
}

// answers is a store with something between a call and its answer.
type answers struct {
	*altered
	before func() error
}

func (s *answers) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := s.altered.Acquire(ctx, r)
	if lost := s.before(); lost != nil {
		return driver.Result{}, lost
	}
	return res, err
}

// A pushed grant may have ended when its message comes: the server attempts, and answers what the
// store answers then.
func TestLocks_pushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pusher{altered: alter()}
		hold(t, s.Store, time.Hour)
		_, c, _ := people(t, s)
		attempts := 0
		s.acquire = func(context.Context) error { attempts++; return nil }
		out, took := wait(t, c, &api.LocksAcquireRequest{Name: "key", Wait: seconds(10)})
		if out.GetGranted() || took != 10*time.Second {
			t.Errorf("%v after %v: the store has granted nothing that lives", out, took)
		}
		if attempts < 10 {
			t.Errorf("%d attempts", attempts)
		}
	})
}

// pusher is a store that pushes grants which have ended.
type pusher struct{ *altered }

func (s *pusher) Watch(ctx context.Context, _ driver.ID) <-chan driver.Wake {
	wakes := make(chan driver.Wake)
	go func() {
		for {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return
			}
			select {
			case wakes <- driver.Wake{Granted: true, Fence: 1 << 52}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return wakes
}

// A store that fails while a caller waits is attempted again, until the wait ends. The last answer
// is never a refusal if the outcome of the last attempt is unknown.
func TestLocks_wait_fails(t *testing.T) {
	for _, heals := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := alter()
			release := hold(t, s.Store, time.Hour)
			_, c, _ := people(t, s)
			began := time.Now()
			s.acquire = func(context.Context) error {
				if at := time.Since(began); at > 3*time.Second && (at < 5*time.Second || !heals) {
					return errors.New("the connection was lost")
				}
				return nil
			}
			time.AfterFunc(4*time.Second, release)
			out, err := c.Acquire(t.Context(), &api.LocksAcquireRequest{Name: "key", Wait: seconds(10), Owner: owner})
			if heals && (err != nil || !out.GetGranted()) || !heals && message.ReasonOf(err).GetKind() != api.Reason_KIND_UNKNOWN {
				t.Errorf("heals %v: %v, %v", heals, out, err)
			}
		})
	}
}

// An attempt without an answer may have been granted. A later attempt that has certainly failed
// does not make that definite: the caller would not release the claim.
func TestLocks_wait_unknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost, gone atomic.Bool // the next answer is lost; then the store is gone
		s := &answers{alter(), func() error {
			if lost.CompareAndSwap(true, false) {
				gone.Store(true)
				return errors.New("the connection was lost")
			}
			return nil
		}}
		s.acquire = func(context.Context) error {
			if gone.Load() {
				return driver.ErrUnavailable
			}
			return nil
		}
		release := hold(t, s.Store, time.Hour)
		_, c, _ := people(t, s)
		time.AfterFunc(4*time.Second, func() {
			lost.Store(true)
			release()
		})
		_, err := c.Acquire(t.Context(), &api.LocksAcquireRequest{Name: "key", Wait: seconds(10), Owner: owner})
		if held, _ := show(t, s); held != 1 || message.ReasonOf(err).GetKind() != api.Reason_KIND_UNKNOWN {
			t.Errorf("%d claims, and the answer is %v", held, err)
		}
	})
}

// A client that counts its trust from before its request never overlaps with the next holder,
// although the answer to its waiting call comes 20 s late, and has trust left if the TTL is longer
// than that.
func TestLocks_overlap(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		for _, held := range []time.Duration{0, time.Second, 24 * time.Second, 60 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				s := mem.New()
				_, c, d := people(t, s)
				if held > 0 {
					time.AfterFunc(held, hold(t, s, time.Hour))
				}
				d.delay = 20 * time.Second
				until := acquireAll(t, c, ttl)
				d.delay = 0

				rival := request("next")
				rival.QueueTTL = time.Hour
				for {
					res, err := s.Acquire(t.Context(), rival)
					if err != nil {
						t.Fatal(err)
					}
					if res.Granted {
						break
					}
					time.Sleep(res.Retry)
				}
				overlap, trusted := time.Until(until), fmt.Sprintf("TTL %v, held for %v", ttl, held)
				if overlap > 0 {
					t.Errorf("%s: two holders for %v", trusted, overlap)
				}
			})
		}
	}
}

// acquireAll waits for the key in as many calls as it takes, and returns until when it trusts the
// lock. The rest of the wait is counted on the client's clock, as a client would.
func acquireAll(t *testing.T, c api.LocksClient, ttl time.Duration) (until time.Time) {
	t.Helper()
	m := &api.LocksAcquireRequest{Name: "key", Ttl: seconds(ttl.Seconds()), Wait: seconds(600), Owner: owner}
	for {
		sent := time.Now()
		out, err := c.Acquire(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if out.GetGranted() {
			until = sent.Add(out.GetWaited().AsDuration() + out.GetValidFor().AsDuration())
			if left := time.Until(until); ttl > 20*time.Second && left < 8*time.Second {
				t.Errorf("an answer that is 20s late leaves %v of a TTL of %v", left, ttl)
			}
			return until
		}
		if !out.GetAgain() {
			t.Fatal(out)
		}
	}
}
