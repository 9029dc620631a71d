package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// errCut is an error of a store that leaves the outcome unknown.
var errCut = errors.New("connection cut")

// A gate is a memory store that counts its calls and lets a test change them. Each Locker on a gate
// stands for a process.
type gate struct {
	*mem.Store
	bubble bool // it was made in a synctest bubble

	mu       sync.Mutex
	calls    map[string]int
	features func(*driver.Features)
	acquire  acquireHook
	renew    func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error)
	release  func(ctx context.Context, id driver.ID, next func() error) error
	watch    func(ctx context.Context, id driver.ID, next func() <-chan driver.Wake) <-chan driver.Wake
}

type (
	acquireFunc func(ctx context.Context, r driver.Request) (driver.Result, error)
	acquireHook func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error)
	renewFunc   func(ctx context.Context, r driver.Renewal) (int, error)
)

func newGate() *gate { return &gate{Store: mem.New(), calls: map[string]int{}} }

// set changes the gate's hooks.
func (g *gate) set(change func(g *gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

// count returns the number of calls of a verb.
func (g *gate) count(verb string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[verb]
}

// reset sets the counts to zero.
func (g *gate) reset() { g.set(func(g *gate) { clear(g.calls) }) }

// total returns the number of calls that cost a round trip, by verb.
func (g *gate) total() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return fmt.Sprintf("acquire %d, renew %d, release %d", g.calls["acquire"], g.calls["renew"], g.calls["release"])
}

func (g *gate) Features() driver.Features {
	f := g.Store.Features()
	if g.features != nil {
		g.features(&f)
	}
	return f
}

func (g *gate) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	g.mu.Lock()
	g.calls["acquire"]++
	hook := g.acquire
	g.mu.Unlock()
	if hook != nil {
		return hook(ctx, r, g.Store.Acquire)
	}
	return g.Store.Acquire(ctx, r)
}

func (g *gate) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	g.mu.Lock()
	g.calls["renew"]++
	hook := g.renew
	g.mu.Unlock()
	if hook != nil {
		return hook(ctx, r, g.Store.Renew)
	}
	return g.Store.Renew(ctx, r)
}

func (g *gate) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	g.mu.Lock()
	hook := g.renew
	if hook == nil {
		g.calls["renew"]++ // one round trip
	}
	g.mu.Unlock()
	if hook == nil {
		return g.Store.RenewAll(ctx, rs)
	}
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = g.Renew(ctx, r)
	}
	return out
}

func (g *gate) Release(ctx context.Context, id driver.ID) error {
	g.mu.Lock()
	g.calls["release"]++
	hook := g.release
	g.mu.Unlock()
	next := func() error { return g.Store.Release(ctx, id) }
	if hook != nil {
		return hook(ctx, id, next)
	}
	return next()
}

func (g *gate) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	g.mu.Lock()
	g.calls["watch"]++
	hook := g.watch
	g.mu.Unlock()
	next := func() <-chan driver.Wake { return g.Store.Watch(ctx, id) }
	if hook != nil {
		return hook(ctx, id, next)
	}
	return next()
}

// freeze makes every call hang until its ctx ends. The calls have no effect.
func (g *gate) freeze() {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	g.set(func(g *gate) {
		g.acquire = func(ctx context.Context, _ driver.Request, _ acquireFunc) (driver.Result, error) {
			return driver.Result{}, hang(ctx)
		}
		g.renew = func(ctx context.Context, _ driver.Renewal, _ renewFunc) (int, error) { return 0, hang(ctx) }
		g.release = func(ctx context.Context, _ driver.ID, _ func() error) error { return hang(ctx) }
	})
}

// thaw removes all hooks.
func (g *gate) thaw() {
	g.set(func(g *gate) { g.acquire, g.renew, g.release, g.watch = nil, nil, nil, nil })
}

// another returns a gate of another process on the same store. It has its own hooks.
func (g *gate) another() *gate {
	return &gate{Store: g.Store, calls: map[string]int{}, bubble: g.bubble}
}

// locker returns a Locker on the gate. The end of the test closes it, and checks that it has no key
// left.
func (g *gate) locker(t *testing.T, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(g, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close(context.Background())
		if n := distlock.Keys(l); n != 0 {
			t.Errorf("%d keys are left after Close", n)
		}
	})
	return l
}

// claims returns the number of claims and of queue entries on all keys.
func (g *gate) claims(t *testing.T) (held, waiting int) {
	t.Helper()
	for c, err := range g.Store.List(context.Background(), "") {
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Waiting:
			waiting++
		default:
			held++
		}
	}
	return held, waiting
}

// expect checks the number of claims and of queue entries.
func (g *gate) expect(t *testing.T, held, waiting int) {
	t.Helper()
	if h, w := g.claims(t); h != held || w != waiting {
		t.Errorf("the store has %d claims and %d queue entries, want %d and %d", h, w, held, waiting)
	}
}

// empty waits until all goroutines are idle, and checks that nothing is left, neither in the store
// nor in the Lockers.
func (g *gate) empty(t *testing.T, lockers ...*distlock.Locker) {
	t.Helper()
	if g.bubble {
		synctest.Wait()
	} else {
		waitIdle(lockers)
	}
	g.expect(t, 0, 0)
	for i, l := range lockers {
		if n := distlock.Keys(l); n != 0 {
			t.Errorf("Locker %d has %d keys left", i, n)
		}
	}
}

// waitIdle waits, outside a bubble, until the goroutines of Lockers have ended. It gives up after
// ten seconds: a goroutine that is left by then does not end.
func waitIdle(lockers []*distlock.Locker) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if !slices.ContainsFunc(lockers, func(l *distlock.Locker) bool { return distlock.Keys(l) > 0 }) {
			return
		}
	}
}

// inBubble runs f in virtual time with a new gate.
func inBubble(t *testing.T, f func(t *testing.T, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		g.bubble = true
		f(t, g)
	})
}

// must returns the lease, and fails if there is an error.
func must(t *testing.T) func(*distlock.Lease, error) *distlock.Lease {
	t.Helper()
	return func(lease *distlock.Lease, err error) *distlock.Lease {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
}

// free unlocks a lease that is held.
func free(t *testing.T, lease *distlock.Lease) {
	t.Helper()
	if err := lease.Unlock(context.Background()); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}

// wants checks that err matches each target.
func wants(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q is not %q", fmt.Sprint(err), target)
		}
	}
}

// A call is a call of Lock, or of a similar method, in its own goroutine.
type call struct {
	done  chan struct{}
	lease *distlock.Lease
	err   error
	took  time.Duration
}

type takeFunc func(ctx context.Context, name string, opts ...distlock.Option) (*distlock.Lease, error)

func begin(ctx context.Context, take takeFunc, name string, opts ...distlock.Option) *call {
	c := &call{done: make(chan struct{})}
	start := time.Now()
	go func() {
		defer close(c.done)
		c.lease, c.err = take(ctx, name, opts...)
		c.took = time.Since(start)
	}()
	return c
}

// returned waits until all goroutines are idle, and reports whether the call has returned.
func (c *call) returned() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// waits checks that the call has not returned.
func (c *call) waits(t *testing.T) *call {
	t.Helper()
	if c.returned() {
		t.Fatalf("the call does not wait: %v, %v", c.lease, c.err)
	}
	return c
}

// now checks that the call has returned with a lease, without letting time pass.
func (c *call) now(t *testing.T) *distlock.Lease {
	t.Helper()
	if !c.returned() {
		t.Fatal("the call still waits")
	}
	return must(t)(c.lease, c.err)
}

// granted waits for the lease.
func (c *call) granted(t *testing.T) *distlock.Lease {
	t.Helper()
	<-c.done
	return must(t)(c.lease, c.err)
}

// refused waits for the error.
func (c *call) refused(t *testing.T, targets ...error) error {
	t.Helper()
	<-c.done
	if c.err == nil {
		t.Fatal("the call was granted")
	}
	wants(t, c.err, targets...)
	return c.err
}

// within checks the duration of the call.
func (c *call) within(t *testing.T, least, most time.Duration) {
	t.Helper()
	<-c.done
	if c.took < least || c.took > most {
		t.Errorf("the call took %v, want %v to %v", c.took, least, most)
	}
}

// order records entries in the order in which they are added.
type order struct {
	mu      sync.Mutex
	entries []string
}

func (o *order) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entries = append(o.entries, fmt.Sprintf(format, args...))
}

func (o *order) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.entries, " ")
}
