package locktest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/locktest"
)

const ttl = 30 * time.Second // the default

// A process is a Locker on a link, with the types of its events.
type process struct {
	*distlock.Locker
	store *locktest.Store
	name  string

	mu    sync.Mutex
	kinds []distlock.EventType
}

func newProcess(t *testing.T, store *locktest.Store, name string) *process {
	t.Helper()
	p := &process{store: store, name: name}
	p.Locker = newLocker(t, store, distlock.Holder(name), distlock.Observe(func(_ context.Context, e distlock.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kinds = append(p.kinds, e.Type)
	}))
	return p
}

// saw reports whether an event of a type was emitted.
func (p *process) saw(k distlock.EventType) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.kinds, k)
}

func (p *process) lock(t *testing.T, name string) *distlock.Lease {
	t.Helper()
	lease, err := p.Lock(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return lease
}

// bubble runs a test in virtual time with one process.
func bubble(t *testing.T, f func(t *testing.T, p *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newProcess(t, locktest.New(t), "first")) })
}

// wantErr checks a lease, a lock or an unlock.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func wantLoss(t *testing.T, lease *distlock.Lease, want distlock.Loss) {
	t.Helper()
	var lost *distlock.LostError
	if err := lease.Err(); !errors.As(err, &lost) || lost.Reason != want {
		t.Errorf("the lease: %v, want it lost: %v", err, want)
	}
}

func wantHolders(t *testing.T, store *locktest.Store, name string, want ...string) {
	t.Helper()
	if got := store.Holders(name); !slices.Equal(got, want) {
		t.Errorf("%q is held by %q, want %q", name, got, want)
	}
}

// wantTook checks how long a step took. Only virtual time is so exact.
func wantTook(t *testing.T, from time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(from); took < want || took > want+time.Millisecond {
		t.Errorf("it took %v, want %v", took, want)
	}
}

func TestStore_Cut_losesTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		p.store.Cut()
		from := time.Now()
		<-lease.Done()
		wantTook(t, from, ttl-time.Second) // the margin
		wantLoss(t, lease, distlock.LossExpired)
		wantHolders(t, p.store, "x", "first") // the loss is reported before the store ends the claim
		if !p.saw(distlock.EventAtRisk) {
			t.Error("the event AtRisk was not emitted")
		}
		wantErr(t, "unlock", lease.Unlock(t.Context()), distlock.ErrLost)
	})
}

func TestStore_Heal_inTime(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		p.store.Cut()
		time.Sleep(ttl * 2 / 3) // a renewal was sent after a third of the TTL, and failed after another quarter
		if !p.saw(distlock.EventAtRisk) || p.saw(distlock.EventRecovered) {
			t.Error("the event AtRisk was not emitted")
		}
		p.store.Heal()
		time.Sleep(ttl)
		if !p.saw(distlock.EventRecovered) {
			t.Error("the event Recovered was not emitted")
		}
		wantErr(t, "unlock", lease.Unlock(t.Context()), nil)
	})
}

func TestStore_Cut_hangs(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Cut()
		from := time.Now()
		_, err := p.Lock(t.Context(), "x")
		wantErr(t, "lock", err, distlock.ErrUnknown)
		wantTook(t, from, 6*time.Second) // an attempt, and a withdrawal
		wantHolders(t, p.store, "x")
	})
}

func TestStore_Heal_endsHangingCalls(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Cut()
		time.AfterFunc(time.Second, p.store.Heal)
		from := time.Now()
		p.lock(t, "x") // the first attempt fails, the second succeeds
		wantTook(t, from, time.Second)
		if n := p.store.Calls(locktest.Acquire); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
	})
}

func TestStore_Cut_stopsWakeUps(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		rival := p.store.Hold("x", "rival")
		granted := make(chan *distlock.Lease, 1)
		go func() { granted <- p.lock(t, "x") }()
		synctest.Wait()
		p.store.Cut()
		rival.Release()
		synctest.Wait()
		if n := p.store.Calls(locktest.Acquire); n != 2 || len(granted) > 0 {
			t.Errorf("it was woken: %d attempts", n) // the first one, and the one for a queue entry
		}
		p.store.Heal()
		<-granted // it also polls
	})
}

func TestStore_Freeze(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Freeze()
		time.AfterFunc(time.Second, p.store.Thaw)
		from := time.Now()
		lease := p.lock(t, "x")
		wantTook(t, from, time.Second)
		if n := p.store.Calls(locktest.Acquire); n != 1 {
			t.Errorf("%d attempts, want only the first one", n)
		}

		p.store.Freeze()
		<-lease.Done()
		wantLoss(t, lease, distlock.LossExpired)
		p.store.Thaw()
		wantErr(t, "unlock", lease.Unlock(t.Context()), distlock.ErrLost)
	})
}

func TestStore_Delay(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Delay(2 * time.Second)
		from := time.Now()
		lease := p.lock(t, "x")
		wantTook(t, from, 2*time.Second)
		from = time.Now()
		wantErr(t, "unlock", lease.Unlock(t.Context()), nil)
		wantTook(t, from, 2*time.Second)

		p.store.Delay(0)
		from = time.Now()
		p.lock(t, "x")
		wantTook(t, from, 0)
	})
}

// A request whose caller has given up still arrives.
func TestStore_Delay_beyondPatience(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Delay(6 * time.Second)
		_, err := p.Lock(t.Context(), "x") // the limit is 5 s for the attempt, and 1 s for the withdrawal
		wantErr(t, "lock", err, distlock.ErrUnknown)
		time.Sleep(time.Second)
		wantHolders(t, p.store, "x", "first")
		time.Sleep(6 * time.Second)
		wantHolders(t, p.store, "x") // the withdrawal arrived too
	})
}

func TestStore_Down(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		p.store.Down()
		_, err := p.TryLock(t.Context(), "y")
		wantErr(t, "lock", err, distlock.ErrUnavailable)
		if errors.Is(err, distlock.ErrHeld) || errors.Is(err, distlock.ErrUnknown) {
			t.Errorf("%v is not only unavailable", err)
		}
		time.Sleep(ttl / 2)
		if !p.saw(distlock.EventAtRisk) {
			t.Error("the event AtRisk was not emitted")
		}
		p.store.Up()
		time.Sleep(ttl)
		if !p.saw(distlock.EventRecovered) {
			t.Error("the event Recovered was not emitted")
		}
		wantErr(t, "lease", lease.Err(), nil)

		p.store.Down()
		<-lease.Done()
		wantLoss(t, lease, distlock.LossExpired)
	})
}

func TestStore_Unavailable(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Unavailable(2)
		for range 2 {
			_, err := p.Lock(t.Context(), "x")
			wantErr(t, "lock", err, distlock.ErrUnavailable)
		}
		lease := p.lock(t, "x")
		p.store.Unavailable(1, locktest.Renew)
		wantErr(t, "extend", lease.Extend(t.Context(), ttl), distlock.ErrUnavailable)
		wantErr(t, "extend", lease.Extend(t.Context(), ttl), nil)
	})
}

// "The store is down" is an answer, which does not arrive on a link that is cut.
func TestStore_Cut_isStrongerThanDown(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.Down()
		p.store.Cut()
		_, err := p.Lock(t.Context(), "x")
		wantErr(t, "lock", err, distlock.ErrUnknown)
	})
}

func TestStore_LoseRequests(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.LoseRequests(1)
		lease := p.lock(t, "x") // it tries again
		if n := p.store.Calls(locktest.Acquire); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		p.store.LoseRequests(1, locktest.Release)
		wantErr(t, "unlock", lease.Unlock(t.Context()), nil) // it is repeated
		if n := p.store.Calls(locktest.Release); n != 2 {
			t.Errorf("%d releases, want 2", n)
		}
		wantHolders(t, p.store, "x")

		from := time.Now()
		p.store.LoseRequests(3) // two attempts, and the withdrawal
		_, err := p.Lock(t.Context(), "x")
		wantErr(t, "lock", err, distlock.ErrUnknown)
		wantHolders(t, p.store, "x")
		wantTook(t, from, 0)
	})
}

func TestStore_LoseReplies(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.store.LoseReplies(1)
		lease := p.lock(t, "x") // it tries again
		if n := p.store.Calls(locktest.Acquire); n != 2 {
			t.Errorf("%d attempts, want 2", n)
		}
		p.store.LoseReplies(1, locktest.Release)
		wantErr(t, "unlock", lease.Unlock(t.Context()), nil) // the first release succeeded, and the second finds nothing
		if n := p.store.Calls(locktest.Release); n != 2 {
			t.Errorf("%d releases, want 2", n)
		}
		wantHolders(t, p.store, "x")

		from := time.Now()
		p.store.LoseReplies(2)
		p.store.LoseRequests(1)
		_, err := p.Lock(t.Context(), "x")
		wantErr(t, "lock", err, distlock.ErrUnknown)
		wantHolders(t, p.store, "x", "first") // two attempts reached the store, and the withdrawal did not
		wantTook(t, from, 0)
	})
}

func TestStore_LoseReplies_ofRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		p.store.LoseReplies(1, locktest.Renew)
		time.Sleep(ttl)
		if !p.saw(distlock.EventAtRisk) || !p.saw(distlock.EventRecovered) {
			t.Error("the events AtRisk and Recovered were not emitted")
		}
		wantErr(t, "unlock", lease.Unlock(t.Context()), nil)
	})
}

// Commands for the next calls apply in order, each to a call of its verbs.
func TestStore_order(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.New(t)
		show := func(ctx context.Context) error { _, err := s.Show(ctx, "x"); return err }
		inspect := func(ctx context.Context) error { _, err := s.Inspect(ctx); return err }
		ended, cancel := context.WithCancel(t.Context())
		cancel()

		s.Unavailable(1, locktest.Inspect, locktest.List)
		s.Unavailable(1)
		s.LoseRequests(1)
		wantErr(t, "a call that is not sent", show(ended), context.Canceled)
		wantErr(t, "show", show(t.Context()), driver.ErrUnavailable)
		if err := show(t.Context()); err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("show: %v, want it lost", err)
		}
		wantErr(t, "show", show(t.Context()), nil)
		wantErr(t, "inspect", inspect(t.Context()), driver.ErrUnavailable)
		wantErr(t, "inspect", inspect(t.Context()), nil)
	})
}

// A call that is not sent, because its ctx has ended, does not affect the next call.
func TestStore_Down_unsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.New(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.Down()
		_, err := s.Show(ended, "x")
		wantErr(t, "show", err, context.Canceled)
		s.Up()
		_, err = s.Show(t.Context(), "x")
		wantErr(t, "show", err, nil)
	})
}

// The renewal of many leases is one call, with one result.
func TestStore_RenewAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.New(t)
		var rs []driver.Renewal
		for _, key := range []string{"a", "b"} {
			id := driver.ID{Key: key, Owner: "o"}
			if res, err := s.Acquire(t.Context(), driver.Request{ID: id, Weight: 1, Limit: 1, TTL: ttl}); err != nil || !res.Granted {
				t.Fatal(res, err)
			}
			rs = append(rs, driver.Renewal{ID: id, TTL: ttl})
		}
		s.Unavailable(1, locktest.Renew)
		for _, want := range []error{driver.ErrUnavailable, nil} {
			for _, r := range driver.RenewAll(t.Context(), s, rs) {
				wantErr(t, "renew", r.Err, want)
			}
		}
		if n := s.Calls(locktest.Renew); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
	})
}

func TestStore_Calls(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		other := newProcess(t, p.store.Link(), "second")
		lease := p.lock(t, "x")
		time.Sleep(ttl)
		if _, err := p.Status(t.Context(), distlock.KindLock, "x"); err != nil {
			t.Error(err)
		}
		for _, err := range p.List(t.Context(), distlock.KindAny, "") {
			wantErr(t, "list", err, nil)
		}
		if _, err := driver.Inspect(t.Context(), p.store); err != nil {
			t.Error(err)
		}
		if _, err := driver.Break(t.Context(), p.store, "x", 0, "for a test"); err != nil {
			t.Error(err)
		}
		<-lease.Done()
		wantLoss(t, lease, distlock.LossBroken)
		wantErr(t, "unlock", p.lock(t, "y").Unlock(t.Context()), nil)

		renewals := p.store.Calls(locktest.Renew)
		if renewals < 3 {
			t.Errorf("%d renewals in more than a TTL", renewals)
		}
		want := map[locktest.Verb]int{
			locktest.Acquire: 2, locktest.Release: 1, locktest.Show: 1, locktest.List: 1, locktest.Break: 1, locktest.Inspect: 1,
		}
		sum := renewals
		for v, n := range want {
			sum += n
			if got := p.store.Calls(v); got != n {
				t.Errorf("%d calls of %s, want %d", got, v, n)
			}
		}
		if got := p.store.Calls(); got != sum {
			t.Errorf("%d calls in total, want %d", got, sum)
		}
		if got := p.store.Calls(locktest.Acquire, locktest.Release); got != 3 {
			t.Errorf("%d calls of two verbs, want 3", got)
		}
		if got := other.store.Calls(); got != 0 {
			t.Errorf("%d calls on an unused link", got)
		}
	})
}

// Only one link is broken: the others still work.
func TestStore_Link(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		other := newProcess(t, p.store.Link(), "second")
		p.store.Cut()
		p.store.Down()
		p.store.Delay(time.Second)
		p.store.LoseReplies(1)
		lease := other.lock(t, "x")
		p.store.Freeze()
		wantHolders(t, p.store, "x", "second") // the store is the same, and Holders works on a broken link
		time.Sleep(ttl)
		wantErr(t, "unlock", lease.Unlock(t.Context()), nil)
		if other.saw(distlock.EventAtRisk) {
			t.Error("the other link is broken too")
		}
	})
}

// The end of the test ends calls that would hang forever, in the bubble.
func TestNew_closes(t *testing.T) {
	ended := make(chan error, 2)
	synctest.Test(t, func(t *testing.T) {
		s := locktest.New(t)
		for _, s := range []*locktest.Store{s, s.Link()} {
			s.Cut()
			go func() { _, err := s.Show(context.Background(), "x"); ended <- err }()
		}
		synctest.Wait()
	})
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("the call was answered")
		}
	}
}
