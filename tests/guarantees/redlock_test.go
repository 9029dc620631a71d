package guarantees_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// Nodes of a majority die, stop, lose their scripts and come back, while leases are held and
// acquired. Fences always rise.
func TestRedlock(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			t.Parallel()
			newRing(t, n, 5*time.Second, testenv.AOF()).play()
		})
	}
}

// A ring is a set of nodes, and two processes that lock on them.
type ring struct {
	*site
	t        *testing.T
	ttl      time.Duration // also LongestTTL
	snapshot bool          // nodes restart with a snapshot from before the grant, and not empty
	a, b     *distlock.Locker
	fences   fences
}

func newRing(t *testing.T, n int, ttl time.Duration, opts ...testenv.Option) *ring {
	r := &ring{site: onNodes(t, n, ttl, opts...), t: t, ttl: ttl}
	r.a = locker(t, r.store(t), distlock.TTL(ttl))
	r.b = locker(t, r.store(t), distlock.TTL(ttl))
	return r
}

func (r *ring) minority() []*testenv.RedisServer { return r.redis[:len(r.redis)/2] }
func (r *ring) most() []*testenv.RedisServer     { return r.redis[:len(r.redis)/2+1] }

func (r *ring) play() {
	t := r.t
	healthy := r.latency("healthy", 100)

	held := persist(t, r.a, "held")
	for _, n := range r.minority() {
		n.Kill()
	}
	down := r.latency("a minority is dead", 100)
	time.Sleep(r.ttl)
	// The lease may expire in a scheduler stall: then take it again.
	for tries := 1; held.Err() != nil; tries++ {
		if tries == 4 || !expired(held.Err()) {
			t.Fatalf("a minority is dead, and the lease is lost: %v", held.Err())
		}
		held = persist(t, r.a, "held")
		time.Sleep(r.ttl + r.ttl/4)
	}
	for _, n := range r.minority() {
		n.Restart()
	}
	release(t, held)

	for _, n := range r.minority() {
		n.Pause()
	}
	slow := r.latency("a minority does not answer", 100)
	for _, n := range r.minority() {
		n.Resume()
	}
	for name, got := range map[string]time.Duration{"dead": down, "silent": slow} {
		// A call that waits for a node takes the whole limit of the node. Smaller differences are
		// noise.
		if got > healthy+nodeLimit(r.ttl)/2 {
			t.Errorf("with a %s minority a lock takes %v, otherwise %v", name, got, healthy)
		}
	}
	r.flush()
	r.majorityDown()
	t.Logf("%d fences rose", r.fences.n)
}

// latency returns the median time to acquire a lock.
func (r *ring) latency(name string, rounds int) time.Duration {
	var all []time.Duration
	for range rounds {
		began := time.Now()
		lease := persist(r.t, r.a, "key")
		all = append(all, time.Since(began))
		r.fences.rise(r.t, lease)
		release(r.t, lease)
	}
	slices.Sort(all)
	r.t.Logf("%d nodes, %s: a lock takes %v, 99 of 100 take %v", len(r.redis), name,
		all[rounds/2].Round(10*time.Microsecond), all[rounds*99/100].Round(10*time.Microsecond))
	return all[rounds/2]
}

// flush removes the scripts of all nodes again and again while two processes compete.
func (r *ring) flush() {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	before := r.fences.count()
	var wg sync.WaitGroup
	for _, l := range []*distlock.Locker{r.a, r.b} {
		wg.Go(func() {
			for ctx.Err() == nil {
				lease, err := l.Lock(ctx, "key")
				if err != nil {
					if ctx.Err() == nil && !troubled(err) {
						r.t.Errorf("Lock: %v", err)
					}
					continue
				}
				r.fences.rise(r.t, lease)
				err = lease.Unlock(context.Background())
				if err != nil && !troubled(err) && !expired(err) { // the machine may be busy
					r.t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	flushed, enough := 0, 10
	// On a busy machine a second may be too short: a claim that was not released blocks the key for
	// a TTL.
	for began := time.Now(); time.Since(began) < time.Second || r.fences.count()-before < enough &&
		time.Since(began) < 3*soon; {
		for _, n := range r.redis {
			do(r.t, n, "SCRIPT", "FLUSH")
		}
		flushed++
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	wg.Wait()
	r.t.Logf("%d nodes: %d grants while scripts were flushed %d times", len(r.redis),
		r.fences.n-before, flushed)
	if r.fences.n-before < enough {
		r.t.Errorf("%d grants: too few", r.fences.n-before)
	}
}

// majorityDown kills a majority and brings it back.
func (r *ring) majorityDown() {
	t := r.t
	held := persist(t, r.a, "key")
	r.fences.rise(t, held)
	trusted := watch(held)
	for _, n := range r.most() {
		n.Kill()
	}
	killed := time.Now()
	var slowest time.Duration
	tries, definite := 0, 0
	for ; tries < 10 || definite == 0 && time.Since(killed) < soon; tries++ {
		clock := testenv.NewStopwatch(t)
		lease, err := r.b.TryLock(t.Context(), "other")
		slowest = max(slowest, clock.Elapsed())
		switch {
		case errors.Is(err, distlock.ErrUnknown): // the client has not yet noticed a broken connection
		case errors.Is(err, distlock.ErrUnavailable):
			definite++
		default:
			t.Errorf("with a dead majority: %v, %v; want ErrUnavailable", lease, err)
		}
	}
	if definite == 0 || slowest > 2*time.Second {
		t.Errorf("with a dead majority %d of %d calls were unavailable, and the slowest took %v",
			definite, tries, slowest)
	}
	trusted.lost(t, soon)
	heldFor := trusted.last.Sub(killed)
	if heldFor > r.ttl {
		t.Errorf("held for %v after a majority had died", heldFor)
	}
	for _, n := range r.most() {
		n.Restart()
	}
	clock := testenv.NewStopwatch(t)
	next := persist(t, r.b, "key")
	resumed := clock.Elapsed()
	r.fences.rise(t, next)
	if resumed > r.ttl+5*time.Second {
		t.Errorf("the first lock took %v after a majority was back", resumed)
	}
	release(t, next)
	t.Logf("%d nodes, a dead majority: %d of %d unavailable, the slowest in %v; trust ended after %v; granted %v after the nodes were back",
		len(r.redis), definite, tries, slowest.Round(time.Millisecond), heldFor.Round(time.Millisecond),
		resumed.Round(time.Millisecond))
}

// A lease is held on a bare majority, and one of its nodes restarts empty, or with a snapshot from
// before the grant. That node is not counted until all claims that it may have forgotten have
// expired, so the lock is not granted before. If nodes do not report their age, there are two
// holders.
func TestRedlock_forgetful(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		n    int
		opts []testenv.Option
	}{
		"3 nodes":               {3, []testenv.Option{testenv.AOF()}},
		"5 nodes":               {5, []testenv.Option{testenv.AOF()}},
		"3 nodes, old snapshot": {3, []testenv.Option{testenv.Config("save 3600 1")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := tt.n
			r := newRing(t, n, 3*time.Second, tt.opts...)
			r.snapshot = strings.Contains(name, "snapshot")
			const rounds = 2
			early, closest := 0, time.Duration(1<<62)
			for round := range rounds {
				first := r.forgotten(round)
				trusted := watch(first)
				second, at := insist(t, r.b, 2*soon, &early)
				trusted.lost(t, soon)
				overlap := trusted.last.Sub(at)
				closest = min(closest, -overlap)
				if overlap > 0 {
					t.Errorf("two holders for %v", overlap)
				}
				r.fences.rise(t, first)
				r.fences.rise(t, second)
				release(t, second)
				time.Sleep(r.ttl) // the node counts again
			}
			if early == 0 {
				t.Error("no attempt was made while the lease was held: this tests nothing")
			}
			t.Logf("%d nodes, %d restarts without the last claims under a lease on a bare majority: %d attempts refused, no holder for at least %v, overlaps 0",
				n, rounds, early, closest.Round(time.Millisecond))

			r.withoutAge()
		})
	}
}

// withoutAge shows two holders if nodes do not report their age.
func (r *ring) withoutAge() {
	t := r.t
	var nodes []driver.Store
	for _, addr := range r.addrs {
		nodes = append(nodes, ageless{clients["rueidis"](t, addr)})
	}
	s, err := combine(t, r.ttl, nodes)
	if err != nil {
		t.Fatal(err)
	}
	naive := locker(t, s, distlock.TTL(r.ttl))
	first := r.forgotten(0)
	second, _ := insist(t, naive, soon, new(int))
	for tries := 1; first.Err() != nil; tries++ { // the lease may expire in a scheduler stall
		if tries == 5 {
			t.Fatalf("without the rule: %v: there should have been two holders", first.Err())
		}
		release(t, second)
		time.Sleep(2 * r.ttl) // the node counts again
		first = r.forgotten(0)
		second, _ = insist(t, naive, soon, new(int))
	}
	if second.Fence() <= first.Fence() {
		t.Errorf("without the rule: fence %d after %d", second.Fence(), first.Fence())
	}
}

// forgotten takes a lock on a bare majority, and lets one of its nodes forget the claim.
func (r *ring) forgotten(node int) *distlock.Lease {
	r.t.Helper()
	for range 5 {
		if r.snapshot {
			do(r.t, r.redis[node], "SAVE")
		}
		lease := r.bare()
		r.redis[node].Kill()
		if r.snapshot {
			r.redis[node].Restart()
		} else {
			r.redis[node].RestartEmpty()
		}
		if lease.Valid(r.ttl / 3) {
			return lease
		}
		time.Sleep(2 * r.ttl) // the machine was too slow: retry when the node counts again
	}
	r.t.Fatal("no node came back while the lease was held: this tests nothing")
	return nil
}

// bare takes a lock without renewal on a bare majority: the first nodes.
func (r *ring) bare() *distlock.Lease {
	r.t.Helper()
	linked, link := r.through(r.t)
	link[len(r.most()):].each(func(p *testenv.ProxyServer) { p.Refuse() })
	return persist(r.t, locker(r.t, linked, distlock.TTL(r.ttl)), "key", distlock.NoRenewal())
}

// insist retries until it acquires the key, and counts the refused attempts. It returns when it
// was granted.
func insist(
	t testing.TB, l *distlock.Locker, within time.Duration, attempts *int,
) (lease *distlock.Lease, at time.Time) {
	t.Helper()
	for began := time.Now(); time.Since(began) < within; *attempts++ {
		lease, err := l.TryLock(t.Context(), "key")
		if err == nil {
			return lease, time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not granted within %v", within)
	return nil, time.Time{}
}

// An ageless node does not report its age.
type ageless struct{ driver.Store }

func (a ageless) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := a.Store.Acquire(ctx, r)
	res.Age = 0
	return res, err
}
