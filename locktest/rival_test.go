package locktest_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/locktest"
)

func TestStore_Hold(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		rival := p.store.Hold("x", "the other machine")
		_, err := p.TryLock(t.Context(), "x")
		var held *distlock.HeldError
		if !errors.As(err, &held) || held.Holder != "the other machine" || held.Fence != rival.Fence() || rival.Fence() == 0 {
			t.Errorf("try: %v, want it held with the rival's fence", err)
		}
		time.Sleep(365 * 24 * time.Hour)
		wantHolders(t, p.store, "x", "the other machine") // it is not renewed

		granted := make(chan *distlock.Lease, 1)
		go func() { granted <- p.lock(t, "x") }()
		synctest.Wait()
		if n := p.store.Waiting("x"); n != 1 {
			t.Errorf("%d in the queue, want 1", n)
		}
		from := time.Now()
		rival.Release()
		lease := <-granted
		wantTook(t, from, 0) // it was woken
		if lease.Fence() <= rival.Fence() {
			t.Errorf("fence %d after %d", lease.Fence(), rival.Fence())
		}
		rival.Release() // it no longer holds the lock
		wantHolders(t, p.store, "x", "first")
		if n := p.store.Waiting("x"); n != 0 {
			t.Errorf("%d in the queue, want none", n)
		}
	})
}

func TestStore_Steal(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		rival := p.store.Steal("x")
		wantHolders(t, p.store, "x", "thief")
		wantErr(t, "the lease", lease.Err(), nil) // it does not know yet
		if rival.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", rival.Fence(), lease.Fence())
		}
		from := time.Now()
		<-lease.Done()
		if took := time.Since(from); took > ttl/2 {
			t.Errorf("it took %v, more than about a third of the TTL", took)
		}
		wantLoss(t, lease, distlock.LossTaken)
		wantErr(t, "unlock", lease.Unlock(t.Context()), distlock.ErrLost)
		wantHolders(t, p.store, "x", "thief")

		second := p.store.Steal("x")
		rival.Release()
		wantHolders(t, p.store, "x", "thief") // the first rival no longer holds the lock
		second.Release()
		if lease := p.lock(t, "x"); lease.Fence() <= second.Fence() {
			t.Errorf("fence %d after %d", lease.Fence(), second.Fence())
		}
	})
}

func TestStore_Steal_fromReaders(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		second := newProcess(t, p.store.Link(), "second")
		a, err := p.RLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		b, err := second.RLock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		wantHolders(t, p.store, "x", "first", "second")
		p.store.Steal("x")
		wantHolders(t, p.store, "x", "thief")
		<-a.Done()
		<-b.Done()
		wantLoss(t, a, distlock.LossTaken)
		wantLoss(t, b, distlock.LossTaken)
	})
}

// A thief overtakes the queue and leaves it as it was.
func TestStore_Steal_keepsTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		p.lock(t, "x")
		granted := make(chan string, 3)
		names := []string{"second", "third", "fourth"}
		var links []*locktest.Store
		for i, name := range names {
			links = append(links, p.store.Link())
			next := newProcess(t, links[i], name)
			go func() {
				lease := next.lock(t, "x")
				granted <- name
				wantErr(t, name, lease.Unlock(t.Context()), nil)
			}()
			synctest.Wait()
		}
		attempts := links[0].Calls(locktest.Acquire)
		rival := p.store.Steal("x")
		synctest.Wait()
		wantHolders(t, p.store, "x", "thief")
		if n := p.store.Waiting("x"); n != 3 {
			t.Errorf("%d in the queue, want 3", n)
		}
		if n := links[0].Calls(locktest.Acquire); n != attempts {
			t.Errorf("the head of the queue was woken without need: %d attempts, want %d", n, attempts)
		}
		time.Sleep(time.Minute) // they keep their queue entries
		from := time.Now()
		rival.Release()
		for _, want := range names {
			if got := <-granted; got != want {
				t.Errorf("%s was next, want %s", got, want)
			}
		}
		wantTook(t, from, 0) // each was woken
	})
}

// Hold overtakes a queue that exists already.
func TestStore_Hold_overtakesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.New(t)
		rival := s.Hold("x", "rival")
		r := driver.Request{
			ID: driver.ID{Key: "x", Owner: "waiter"}, Weight: 1, Limit: 1, TTL: time.Second, QueueTTL: time.Hour, Holder: "waiter",
		}
		if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted {
			t.Fatal(res, err)
		}
		r.QueueTTL = 0 // it tries again and keeps its queue entry
		if res, err := s.Acquire(t.Context(), r); err != nil || res.Granted {
			t.Fatal(res, err)
		}
		rival.Release()
		rival = s.Hold("x", "another")
		wantHolders(t, s, "x", "another")
		if n := s.Waiting("x"); n != 1 {
			t.Errorf("%d in the queue, want 1", n)
		}
		rival.Release()
		if res, err := s.Acquire(t.Context(), r); err != nil || !res.Granted {
			t.Errorf("%v, %v: the queue entry is lost", res, err)
		}
	})
}

func TestStore_Expire(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		second := newProcess(t, p.store.Link(), "second")
		granted := make(chan *distlock.Lease, 1)
		go func() { granted <- second.lock(t, "x") }()
		synctest.Wait()
		from := time.Now()
		p.store.Expire("x")
		next := <-granted
		wantTook(t, from, 0)
		wantHolders(t, p.store, "x", "second")
		wantErr(t, "the lease", lease.Err(), nil) // it does not know yet
		if next.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
		}
		<-lease.Done()
		wantLoss(t, lease, distlock.LossTaken)
		wantErr(t, "unlock", next.Unlock(t.Context()), nil)
	})
}

// Expire ends a claim whose release was lost.
func TestStore_Expire_afterALostRelease(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		lease := p.lock(t, "x")
		p.store.LoseRequests(1000, locktest.Release) // it is repeated for 5 s
		wantErr(t, "unlock", lease.Unlock(t.Context()), distlock.ErrUnknown)
		wantHolders(t, p.store, "x", "first")
		p.store.Expire("x")
		wantHolders(t, p.store, "x")
	})
}

// Names are those that the code passes to the Locker, also if they look like keys.
func TestStore_names(t *testing.T) {
	bubble(t, func(t *testing.T, p *process) {
		for _, name := range []string{"x", "~x", "~~x", "~sem/x"} {
			lease := p.lock(t, name)
			wantHolders(t, p.store, name, "first")
			p.store.Steal(name)
			<-lease.Done()
			_, err := p.TryLock(t.Context(), name)
			wantErr(t, name, err, distlock.ErrHeld)
		}
		for _, name := range []string{"x", "~x", "~~x", "~sem/x"} {
			p.store.Expire(name)
			wantErr(t, name, p.lock(t, name).Unlock(t.Context()), nil)
		}
	})
}

// A spy is a test whose Fatalf panics instead of failing.
type spy struct {
	testing.TB
	closed func()
}

func (spy) Helper()                        {}
func (s *spy) Cleanup(f func())            { s.closed = f }
func (spy) Fatalf(format string, _ ...any) { panic("fatal: " + format) }

func TestStore_mistakes(t *testing.T) {
	mistakes := []struct {
		name string
		make func(s *locktest.Store)
		want string
	}{
		{"steal", func(s *locktest.Store) { s.Steal("weekly") }, `locktest: Steal("weekly"): nobody holds it; held are ["nightly" "~x"]`},
		{"expire", func(s *locktest.Store) { s.Expire("weekly") }, `locktest: Expire("weekly"): nobody holds it; held are ["nightly" "~x"]`},
		{"hold", func(s *locktest.Store) { s.Hold("nightly", "me") }, `locktest: Hold("nightly"): it is already held; held are ["nightly" "~x"]`},
		{"no name", func(s *locktest.Store) { s.Hold("", "me") }, `locktest: Hold(""): driver: invalid request: `},
		{"requests", func(s *locktest.Store) { s.LoseRequests(0) }, `locktest: LoseRequests(0): less than one call`},
		{"replies", func(s *locktest.Store) { s.LoseReplies(-1) }, `locktest: LoseReplies(-1): less than one call`},
		{"unavailable", func(s *locktest.Store) { s.Unavailable(0) }, `locktest: Unavailable(0): less than one call`},
		{"delay", func(s *locktest.Store) { s.Delay(-1) }, `locktest: Delay(-1ns): less than zero`},
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			s := locktest.New(nil)
			defer s.Close()
			s.Hold("nightly", "rival")
			s.Hold("~x", "rival")
			if got := panics(func() { m.make(s) }); !strings.HasPrefix(got, m.want) {
				t.Errorf("the error is %q, want %q", got, m.want)
			}
			wantHolders(t, s, "nightly", "rival")

			test := &spy{}
			if got := panics(func() { m.make(holding(test)) }); !strings.HasPrefix(got, "fatal: locktest: ") {
				t.Errorf("the test failed with %q", got)
			}
			test.closed()
		})
	}
}

func holding(t testing.TB) *locktest.Store {
	s := locktest.New(t)
	s.Hold("nightly", "rival")
	return s
}

// panics returns the text that f panics with.
func panics(f func()) (text string) {
	defer func() { text, _ = recover().(string) }()
	f()
	return ""
}

// Outside of a bubble the store works the same, in real time.
func TestStore_realTime(t *testing.T) {
	t.Parallel()
	p := newProcess(t, locktest.New(t), "first")
	rival := p.store.Hold("x", "rival")
	granted := make(chan *distlock.Lease, 1)
	go func() { granted <- p.lock(t, "x") }()
	for p.store.Waiting("x") == 0 {
		runtime.Gosched()
	}
	rival.Release()
	lease := <-granted
	p.store.LoseReplies(1, locktest.Release)
	wantErr(t, "unlock", lease.Unlock(t.Context()), nil) // it is repeated
	wantHolders(t, p.store, "x")
}
