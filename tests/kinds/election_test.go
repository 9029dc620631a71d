package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func elects(f driver.Features) bool { return f.Fence && f.Value }

// playCandidate is a process that stands for election in the store of a URL and prints its terms.
func playCandidate(args []string) int {
	ctx := context.Background()
	url, name, ttl := args[0], args[1], args[2]
	d, err := time.ParseDuration(ttl)
	if err == nil {
		var s *open.Source
		if s, err = open.Open(ctx, url); err == nil {
			err = candidate(ctx, s.Store, name, d)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func candidate(ctx context.Context, s driver.Store, name string, ttl time.Duration) error {
	l, err := distlock.New(s, distlock.TTL(ttl), distlock.Holder(name))
	if err != nil {
		return err
	}
	e, err := l.Election()
	if err != nil {
		return err
	}
	fmt.Println("stands")
	return stand(ctx, e, func(ctx context.Context, t *distlock.Term) error {
		fmt.Println(t.Fence())
		<-ctx.Done()
		return nil
	})
}

type leadFunc = func(ctx context.Context, t *distlock.Term) error

// stand runs a candidate. It starts again if the first call found the store slow.
func stand(ctx context.Context, e *distlock.Election, lead leadFunc) error {
	run := func(ctx context.Context, lead leadFunc, _ ...distlock.Option) (struct{}, error) {
		return struct{}{}, e.Run(ctx, "e", lead)
	}
	_, err := steady(run)(ctx, lead)
	return err
}

// After kill -9 of the leader, another candidate leads within the TTL plus a second, with a higher
// term.
func TestElection_kill(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second // longer than a scheduler stall on a busy machine
	onEach(t, elects, func(t *testing.T, url string) {
		if !store(t, url).Features().Expiry {
			t.Skip("leadership ends with the connection")
		}
		var all []*testenv.HelperProcess
		for i := range 3 {
			h := testenv.Helper(t, "candidate", url, fmt.Sprintf("node-%d", i), ttl.String())
			h.Line() // it stands
			all = append(all, h)
			if i == 0 {
				first := h.Line()
				t.Log("the first term is", first)
			}
		}
		e, err := locker(t, url).Election()
		if err != nil {
			t.Fatal(err)
		}
		queue := store(t, url).Features().Queue
		before := await(t, e,
			func(l distlock.Leader) bool { return l.Holder == "node-0" && (l.Waiters == 2 || !queue) })
		watch := testenv.NewStopwatch(t)
		all[0].Kill()
		after := await(t, e, func(l distlock.Leader) bool { return l.Fence != 0 && l.Holder != "node-0" })
		took := watch.Elapsed()
		t.Logf("%s leads %v after the kill", after.Holder, took.Round(time.Millisecond))
		if took > ttl+time.Second {
			t.Errorf("the new leader came after %v, more than the TTL of %v and a second", took, ttl)
		}
		if after.Fence <= before.Fence {
			t.Errorf("term %d after %d", after.Fence, before.Fence)
		}
	})
}

// await polls the leader until it is the wanted one.
func await(t *testing.T, e *distlock.Election, want func(distlock.Leader) bool) distlock.Leader {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		now, err := e.Leader(t.Context(), "e")
		if err == nil && want(now) {
			return now
		}
		if time.Since(began) > soon {
			t.Fatalf("the leader is %+v, %v", now, err)
		}
	}
}

// The leader publishes a value, others see it, and the leader steps down for a preferred candidate.
// After a resignation another candidate leads.
func TestElection(t *testing.T) {
	t.Parallel()
	onEach(t, elects, func(t *testing.T, url string) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*soon)
		queue := store(t, url).Features().Queue
		ttl := soon / 2 // a leader sees waiters after a third of it
		if !queue {
			ttl = 3 * soon // a node of a majority may take at most a tenth of it
		}
		leads := make(chan string, 10)
		var ends []chan error
		run := func(name string, opts ...distlock.Option) context.CancelFunc {
			opts = append(opts, distlock.Holder(name), distlock.TTL(ttl))
			e, err := locker(t, url).Election(opts...)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			end := make(chan error, 1)
			ends = append(ends, end)
			go func() {
				end <- stand(ctx, e, func(ctx context.Context, term *distlock.Term) error {
					if err := term.Publish(ctx, []byte("at "+name)); err != nil {
						return err
					}
					leads <- name
					<-ctx.Done()
					return nil
				})
			}()
			return stop
		}
		// elected waits until the candidate leads. Others may lead before a preferred candidate:
		// its queue entry expires in a scheduler stall, and then the leader does not see it and
		// does not step down.
		elected := func(name string) {
			t.Helper()
			for got, limit := "", time.After(2*soon); got != name; {
				select {
				case got = <-leads:
					t.Log(got, "leads")
				case <-limit:
					t.Fatalf("%s does not lead", name)
				}
			}
		}
		e, err := locker(t, url).Election()
		if err != nil {
			t.Fatal(err)
		}
		stopA := run("a")
		elected("a")
		stopB := run("b")
		await(t, e, func(l distlock.Leader) bool {
			return l.Holder == "a" && string(l.Value) == "at a" && (l.Waiters == 1 || !queue)
		})
		if queue {
			run("p", distlock.Preferred())
			elected("p")
		}
		stopA()
		if !queue {
			elected("b")
		}
		stopB()
		cancel()
		for _, end := range ends {
			if err := <-end; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		}
		// A candidacy that was not withdrawn when Run returned is withdrawn in the background.
		await(t, e, func(l distlock.Leader) bool { return l.Holder == "" && l.Waiters == 0 })
	})
}

// A meter counts the calls that a candidate makes to the store.
type meter struct {
	*chaos.Store
	calls, releases *atomic.Int64
	failed          *atomic.Int64 // calls without an answer of the store
}

func metered(t *testing.T, url string) (*distlock.Locker, meter) {
	m := meter{chaos.New(store(t, url), nil), new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)}
	t.Cleanup(m.Close)
	return lockerOn(t, m), m
}

func (m meter) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	m.calls.Add(1)
	res, err := m.Store.Acquire(ctx, r)
	m.note(ctx, err)
	return res, err
}

// note counts a call that the store did not answer, unless its context has ended.
func (m meter) note(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, driver.ErrNotHeld) && ctx.Err() == nil {
		m.failed.Add(1)
	}
}

func (m meter) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	m.calls.Add(1)
	return m.Store.RenewAll(ctx, rs)
}

func (m meter) Release(ctx context.Context, id driver.ID) error {
	m.calls.Add(1)
	m.releases.Add(1)
	err := m.Store.Release(ctx, id)
	m.note(ctx, err)
	return err
}

// When the leader resigns, the waiting candidate leads after the release and at most two calls of
// its own. On a store without a queue it is also notified, but may make an attempt before the
// release has reached all nodes.
func TestElection_resign(t *testing.T) {
	t.Parallel()
	onEach(t, elects, func(t *testing.T, url string) {
		queue := store(t, url).Features().Queue
		limit := 2 * soon
		if !queue {
			limit = 3 * time.Minute // for leftovers of a slow majority: see failed
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		leads, resign := make(chan int64, 2), make(chan struct{})
		var ends sync.WaitGroup
		run := func(l *distlock.Locker, lead func()) {
			e, err := l.Election()
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			ends.Go(func() {
				_ = stand(ctx, e, func(context.Context, *distlock.Term) error {
					lead()
					stop() // it does not stand again
					return nil
				})
			})
		}
		one, a := metered(t, url)
		two, b := metered(t, url)
		// A slow majority keeps leftovers of unanswered requests until their TTL expires, and for
		// longer does not use a node that has not answered. The next candidate retries during this
		// time.
		failed := func() int64 {
			if queue {
				return 0
			}
			return a.failed.Load() + b.failed.Load()
		}
		next := func() (n int64) {
			t.Helper()
			select {
			case n = <-leads:
			case <-ctx.Done():
				t.Fatalf("nobody leads; %d calls were not answered", failed())
			}
			return n
		}
		run(one, func() {
			leads <- 0
			<-resign
		})
		next()
		run(two, func() {
			leads <- a.releases.Load() + b.calls.Load()
		})
		seen, err := locker(t, url).Election()
		if err != nil {
			t.Fatal(err)
		}
		// Without a queue, a candidate watches the key after its second attempt.
		await(t, seen, func(l distlock.Leader) bool { return l.Waiters == 1 || !queue && b.calls.Load() >= 2 })
		before := a.releases.Load() + b.calls.Load()
		began := time.Now()
		close(resign)
		most := int64(3)
		if !queue {
			most = 5 // also one call in flight, and one that came too early
		}
		n, took := next()-before, time.Since(began)
		most += int64(took / (time.Second / 2)) // a waiter also polls without a wake-up
		t.Logf("the next one leads after %d calls to the store, %v", n, took.Round(time.Millisecond))
		if n < 1 || n > most && failed() == 0 {
			t.Errorf("the next one leads after %d calls to the store, want at most %d", n, most)
		}
		ends.Wait()
	})
}

// On a store without the features that an election needs, the constructor returns an error.
func TestElection_refused(t *testing.T) {
	t.Parallel()
	onEach(t, func(f driver.Features) bool { return !elects(f) }, func(t *testing.T, url string) {
		_, err := locker(t, url).Election()
		if name := store(t, url).Features().Name; !errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(err.Error(), "store "+name) {
			t.Errorf("store %s: %v", name, err)
		}
	})
}
