// Package redis_test checks the guarantees of docs/guarantees.md about Redis and Redlock. The
// servers are real: the tests kill, stop, empty, cut off and fail over servers while lockers use
// them. A fence is a fencing token.
//
// A run prints its seed and its measurements. The same seed gives about the same schedule of
// faults; the timing depends on the machine.
package redis_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	goclient "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/quorum"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// soon is the limit for an immediate action on a busy machine.
const soon = 10 * time.Second

var seed = flag.Uint64("seed", 1, "decides when and where faults happen")

func TestMain(m *testing.M) {
	run := testenv.Main(m, testenv.Roles{"holder": playHolder, "waiters": playWaiters})
	flag.Parse()
	// The tests mostly wait, which needs no processor.
	if err := flag.Set("test.parallel", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(run)
}

// chance returns a source of random numbers for one test, and prints the seed to repeat the run.
func chance(t testing.TB) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 3))
}

// clients open a store on one server, with each client library.
var clients = map[string]func(t testing.TB, addr string) driver.Store{
	"rueidis": open,
	"goredis": func(t testing.TB, addr string) driver.Store {
		c := goclient.NewClient(&goclient.Options{Addr: addr})
		t.Cleanup(func() { c.Close() })
		s, err := goredisstore.New(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	},
}

func open(t testing.TB, addr string) driver.Store {
	t.Helper()
	return openURL(t, testenv.URL("redis", addr))
}

func openURL(t testing.TB, url string) driver.Store {
	t.Helper()
	s, err := rueidisstore.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// redlock combines independent servers into one store.
func redlock(t testing.TB, longest time.Duration, addrs ...string) *quorum.Store {
	t.Helper()
	nodes := make([]driver.Store, len(addrs))
	for i, addr := range addrs {
		nodes[i] = open(t, addr)
	}
	return majority(t, longest, nodes)
}

// nodeLimit returns the time that a node may take. It is as long as possible, up to the length of a
// scheduler stall.
func nodeLimit(longest time.Duration) time.Duration { return min(longest/10, 2*time.Second) }

func majority(t testing.TB, longest time.Duration, nodes []driver.Store) *quorum.Store {
	t.Helper()
	q, err := quorum.New(t.Context(), nodes,
		&quorum.Options{Name: "redlock", LongestTTL: longest, NodeLimit: nodeLimit(longest)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// waitCounted waits until a majority is no longer a new deployment.
func waitCounted(t testing.TB, q *quorum.Store, longest time.Duration) {
	t.Helper()
	for began := time.Now(); ; {
		info, err := q.Inspect(t.Context())
		switch {
		case err == nil && info.Age >= 2*longest:
			return
		case err == nil:
			time.Sleep(2*longest - info.Age)
		case time.Since(began) > 3*soon: // until then the machine may be busy
			t.Fatal(err)
		}
	}
}

func locker(t testing.TB, s driver.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = l.Close(ctx) // its server may be down
	})
	return l
}

func lock(t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option) *distlock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	lease, err := l.Lock(ctx, name, opts...)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return lease
}

func unlock(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

// release is unlock after a fault. If a broken connection loses the answer, it repeats the call. A
// lease that expired in a scheduler stall needs no release.
func release(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	err := lease.Unlock(t.Context())
	for try := 1; try < 10 &&
		(errors.Is(err, distlock.ErrUnknown) || errors.Is(err, distlock.ErrUnavailable)); try++ {
		err = lease.Unlock(t.Context())
	}
	if err != nil && !expired(err) {
		t.Fatalf("Unlock: %v", err)
	}
}

// expired reports whether a lease was lost because its TTL expired.
func expired(err error) bool {
	var lost *distlock.LostError
	return errors.As(err, &lost) && lost.Reason == distlock.LossExpired
}

// persist acquires a lock of a store that may be unavailable for a while. It fails the test after
// some time.
func persist(
	t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option,
) *distlock.Lease {
	t.Helper()
	began := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		lease, err := l.Lock(ctx, name, opts...)
		cancel()
		switch {
		case err == nil:
			return lease
		case !errors.Is(err, distlock.ErrUnavailable) &&
			!errors.Is(err, distlock.ErrUnknown), time.Since(began) > soon:
			t.Fatalf("Lock: %v after %v", err, time.Since(began))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A grant is the result of a Lock in the background.
type grant struct {
	lease *distlock.Lease
	err   error
	at    time.Time // when Lock returned
}

// wait acquires a lock in the background. It returns when the call waits. If a busy machine lost
// the answer to the first attempt, wait repeats the call.
func wait(t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option) <-chan grant {
	t.Helper()
	out, waiting := make(chan grant, 1), make(chan struct{})
	once := sync.OnceFunc(func() { close(waiting) })
	opts = append(opts, distlock.Observe(func(_ context.Context, e distlock.Event) {
		if e.Type == distlock.EventWaiting {
			once()
		}
	}))
	go func() {
		lease, err := l.Lock(context.Background(), name, opts...)
		for began := time.Now(); (errors.Is(err, distlock.ErrUnavailable) ||
			errors.Is(err, distlock.ErrUnknown)) && time.Since(began) < soon; {
			select {
			case <-waiting: // the error is not of the first attempt
				out <- grant{lease, err, time.Now()}
				return
			default:
			}
			lease, err = l.Lock(context.Background(), name, opts...)
		}
		out <- grant{lease, err, time.Now()}
		once()
	}()
	<-waiting
	return out
}

// granted returns the grant of a call that wait started.
func granted(t testing.TB, c <-chan grant, within time.Duration) grant {
	t.Helper()
	select {
	case g := <-c:
		if g.err != nil {
			t.Fatalf("Lock: %v", g.err)
		}
		return g
	case <-time.After(within):
		t.Fatalf("not granted within %v", within)
	}
	return grant{}
}

// fences checks that the fences of each name rise.
type fences struct {
	mu   sync.Mutex
	last map[string]uint64
	n    int
}

func (f *fences) rise(t testing.TB, lease *distlock.Lease) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]uint64{}
	}
	if was := f.last[lease.Name()]; lease.Fence() <= was {
		t.Errorf("fence %d of %s after %d", lease.Fence(), lease.Name(), was)
	}
	f.last[lease.Name()] = lease.Fence()
	f.n++
}

// count returns the number of checked fences.
func (f *fences) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// A trust checks a lease again and again, as a careful holder would.
type trust struct {
	done chan struct{}
	last time.Time // when the last check began that found the lease held
}

func watch(lease *distlock.Lease) *trust {
	w := &trust{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			at := time.Now()
			if lease.Err() != nil {
				return
			}
			w.last = at
			time.Sleep(500 * time.Microsecond)
		}
	}()
	return w
}

// lost waits until the lease is lost.
func (w *trust) lost(t testing.TB, within time.Duration) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(within):
		t.Fatalf("not notified of the loss within %v", within)
	}
}

// do sends a command to a server.
func do(t testing.TB, srv *testenv.RedisServer, args ...string) any {
	t.Helper()
	v, err := srv.Do(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// upTo returns a random duration below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(d)))
}
