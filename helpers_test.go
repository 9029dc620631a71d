package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// few returns n, or a quarter of it with -short: the race detector makes virtual time slow.
func few(n int) int {
	if testing.Short() {
		return max(n/4, 1)
	}
	return n
}

// errCut is an error of a store that leaves the outcome unknown.
var errCut = errors.New("connection cut")

// A gate is a memory store that counts its calls and lets a test change them. Each Locker on a gate
// stands for a process.
type gate struct {
	*mem.Store
	bubble bool // it was made in a synctest bubble

	mu       sync.Mutex
	calls    map[string]int  // by verb
	owners   map[string]bool // every secret that a call carried
	features func(*driver.Features)
	hooks
}

// hooks change the calls of a gate. A call uses the hooks that are set when it begins.
type hooks struct {
	before  func(ctx context.Context, verb string) error // an error: the store does not get the call
	after   func(ctx context.Context, verb string) error // an error: the answer of the store is lost
	acquire acquireHook
	renew   func(ctx context.Context, r driver.Renewal, next renewFunc) (int, error)
	release func(ctx context.Context, id driver.ID, next func() error) error
	watch   func(ctx context.Context, id driver.ID, next func() <-chan driver.Wake) <-chan driver.Wake
}

type (
	acquireFunc func(ctx context.Context, r driver.Request) (driver.Result, error)
	acquireHook func(ctx context.Context, r driver.Request, next acquireFunc) (driver.Result, error)
	renewFunc   func(ctx context.Context, r driver.Renewal) (int, error)
)

func newGate() *gate {
	return &gate{Store: mem.New(), calls: map[string]int{}, owners: map[string]bool{}}
}

// set changes the gate's hooks.
func (g *gate) set(change func(g *gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

// on sets the hooks of all verbs but Watch.
func (g *gate) on(before, after func(ctx context.Context, verb string) error) {
	g.set(func(g *gate) { g.before, g.after = before, after })
}

// cut makes every call fail without effect.
func (g *gate) cut() { g.on(func(context.Context, string) error { return errCut }, nil) }

// freeze makes every call hang until its ctx ends. The calls have no effect.
func (g *gate) freeze() {
	g.on(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, nil)
}

// deafen drops the answers to a verb.
func (g *gate) deafen(verb string) {
	g.on(nil, func(_ context.Context, v string) error {
		if v == verb {
			return errCut
		}
		return nil
	})
}

// mend removes all hooks.
func (g *gate) mend() { g.set(func(g *gate) { g.hooks = hooks{} }) }

// count returns the number of calls of a verb, or of all verbs if verb is empty.
func (g *gate) count(verb string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for v, c := range g.calls {
		if verb == "" || v == verb {
			n += c
		}
	}
	return n
}

// reset sets the counts to zero.
func (g *gate) reset() { g.set(func(g *gate) { clear(g.calls) }) }

// total returns the number of calls that cost a round trip, by verb.
func (g *gate) total() string {
	return fmt.Sprintf("acquire %d, renew %d, release %d", g.count("acquire"), g.count("renew"), g.count("release"))
}

// secrets returns the owners that the store has seen.
func (g *gate) secrets() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.owners))
}

// called counts a call, and returns its hooks.
func (g *gate) called(verb string, owner string) hooks {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[verb]++
	if owner != "" {
		g.owners[owner] = true
	}
	return g.hooks
}

// around makes a call of the store between the hooks before and after.
func (h *hooks) around(ctx context.Context, verb string, call func() error) error {
	if h.before != nil {
		if err := h.before(ctx, verb); err != nil {
			return err
		}
	}
	err := call()
	if h.after != nil {
		if lost := h.after(ctx, verb); lost != nil {
			return lost
		}
	}
	return err
}

func (g *gate) Features() driver.Features {
	f := g.Store.Features()
	if g.features != nil {
		g.features(&f)
	}
	return f
}

func (g *gate) Acquire(ctx context.Context, r driver.Request) (res driver.Result, err error) {
	h := g.called("acquire", r.Owner)
	err = h.around(ctx, "acquire", func() (err error) {
		if h.acquire != nil {
			res, err = h.acquire(ctx, r, g.Store.Acquire)
		} else {
			res, err = g.Store.Acquire(ctx, r)
		}
		return err
	})
	if err != nil && h.acquire == nil {
		res = driver.Result{} // the answer was lost
	}
	return res, err
}

func (g *gate) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	h := g.called("renew", r.Owner)
	err = h.around(ctx, "renew", func() (err error) {
		if h.renew != nil {
			behind, err = h.renew(ctx, r, g.Store.Renew)
		} else {
			behind, err = g.Store.Renew(ctx, r)
		}
		return err
	})
	return behind, err
}

// RenewAll is one round trip, unless a hook has to see each renewal.
func (g *gate) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	g.mu.Lock()
	whole := g.renew == nil && g.before == nil && g.after == nil
	if whole {
		g.calls["renew"]++
	}
	g.mu.Unlock()
	if whole {
		return g.Store.RenewAll(ctx, rs)
	}
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = g.Renew(ctx, r)
	}
	return out
}

func (g *gate) Release(ctx context.Context, id driver.ID) error {
	h := g.called("release", id.Owner)
	next := func() error { return g.Store.Release(ctx, id) }
	return h.around(ctx, "release", func() error {
		if h.release != nil {
			return h.release(ctx, id, next)
		}
		return next()
	})
}

func (g *gate) Show(ctx context.Context, key string) (claims []driver.Claim, err error) {
	h := g.called("show", "")
	err = h.around(ctx, "show", func() (err error) { claims, err = g.Store.Show(ctx, key); return err })
	return claims, err
}

func (g *gate) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	h := g.called("watch", "")
	next := func() <-chan driver.Wake { return g.Store.Watch(ctx, id) }
	if h.watch != nil {
		return h.watch(ctx, id, next)
	}
	return next()
}

// another returns a gate of another process on the same store. It has its own hooks.
func (g *gate) another() *gate {
	return &gate{Store: g.Store, calls: map[string]int{}, owners: map[string]bool{}, bubble: g.bubble}
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

// wants ends the test unless err matches each target.
func wants(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("error %q is not %q", fmt.Sprint(err), target)
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

// A tape records events.
type tape struct {
	mu     sync.Mutex
	events []distlock.Event
}

func (p *tape) observe(_ context.Context, e distlock.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// all returns the events of some kinds, or of all kinds.
func (p *tape) all(kinds ...distlock.EventType) []distlock.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []distlock.Event
	for _, e := range p.events {
		if len(kinds) == 0 || slices.Contains(kinds, e.Type) {
			out = append(out, e)
		}
	}
	return out
}

// story returns the types of the events in order, without attempts and renewals.
func (p *tape) story() []distlock.EventType {
	var out []distlock.EventType
	for _, e := range p.all() {
		if e.Type != distlock.EventAttempted && e.Type != distlock.EventRenewed {
			out = append(out, e.Type)
		}
	}
	return out
}

// lockerOn returns a Locker that the end of the test closes.
func lockerOn(t testing.TB, s driver.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// taken acquires a lock that is free.
func taken(t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option) *distlock.Lease {
	t.Helper()
	lease, err := l.TryLock(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// wantInvalid ends the test unless err is an ArgumentError about this argument.
func wantInvalid(t testing.TB, err error, what string) {
	t.Helper()
	if !errors.Is(err, distlock.ErrInvalid) || invalidWhat(err) != what {
		t.Fatalf("error %v, want an ArgumentError about the %s", err, what)
	}
}

// invalidWhat returns which argument an ArgumentError is about; "" if err is none.
func invalidWhat(err error) string {
	var wrong *distlock.ArgumentError
	if !errors.As(err, &wrong) {
		return ""
	}
	return wrong.What
}

// wantLoss ends the test unless err is a LostError with this reason.
func wantLoss(t testing.TB, err error, reason distlock.Loss) {
	t.Helper()
	var lost *distlock.LostError
	if !errors.As(err, &lost) || !errors.Is(err, distlock.ErrLost) {
		t.Fatalf("error %v, want a LostError", err)
	}
	if lost.Reason != reason {
		t.Fatalf("lost because %s (%v), want %s", lost.Reason, err, reason)
	}
}

// wantStory ends the test unless the events came in this order.
func wantStory(t testing.TB, p *tape, want ...distlock.EventType) {
	t.Helper()
	if got := p.story(); !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
}

// isClosed reports whether a channel is closed.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// trustOf returns how long a lease is trusted: the TTL less its margin.
func trustOf(ttl time.Duration) time.Duration { return ttl - max(ttl/100, min(ttl/10, time.Second)) }

// A slowObserver blocks in the first event of a kind until release is called.
type slowObserver struct {
	kind distlock.EventType
	hold chan struct{}
	busy atomic.Bool
	free sync.Once
}

func (o *slowObserver) observe(_ context.Context, e distlock.Event) {
	if e.Type == o.kind && o.busy.CompareAndSwap(false, true) {
		<-o.hold
	}
}

func (o *slowObserver) release() { o.free.Do(func() { close(o.hold) }) }

// noContext is a nil context.
var noContext context.Context
