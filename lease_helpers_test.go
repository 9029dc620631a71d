package distlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A wire is a store at the end of a line that can be cut, and that counts what goes over it.
type wire struct {
	*mem.Store
	f driver.Features

	mu     sync.Mutex
	calls  map[string]int
	owners map[string]bool                              // every secret that went over it
	before func(ctx context.Context, verb string) error // an error: the call is not made
	after  func(ctx context.Context, verb string) error // an error: it was made, and its answer is lost
}

func newWire() *wire {
	s := mem.New()
	return &wire{Store: s, f: s.Features(), calls: map[string]int{}, owners: map[string]bool{}}
}

var errWire = errors.New("the line is cut")

// cut makes every call fail without effect until mend.
func (w *wire) cut() { w.on(func(context.Context, string) error { return errWire }, nil) }

// freeze makes every call hang until its context is over.
func (w *wire) freeze() {
	w.on(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, nil)
}

// deafen loses the answers to a verb.
func (w *wire) deafen(verb string) {
	w.on(nil, func(_ context.Context, v string) error {
		if v == verb {
			return errWire
		}
		return nil
	})
}

func (w *wire) mend() { w.on(nil, nil) }

func (w *wire) on(before, after func(context.Context, string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = before, after
}

// count returns how many calls of a verb were made; "": of all.
func (w *wire) count(verb string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v, c := range w.calls {
		if verb == "" || v == verb {
			n += c
		}
	}
	return n
}

// secrets returns the owners that the store has seen.
func (w *wire) secrets() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for o := range w.owners {
		out = append(out, o)
	}
	return out
}

func (w *wire) call(ctx context.Context, verb string, id driver.ID, do func() error) error {
	w.mu.Lock()
	w.calls[verb]++
	if id.Owner != "" {
		w.owners[id.Owner] = true
	}
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(ctx, verb); err != nil {
			return err
		}
	}
	err := do()
	if after != nil {
		if lost := after(ctx, verb); lost != nil {
			return lost
		}
	}
	return err
}

func (w *wire) Features() driver.Features { return w.f }

func (w *wire) Acquire(ctx context.Context, r driver.Request) (res driver.Result, err error) {
	err = w.call(ctx, "acquire", r.ID, func() (err error) { res, err = w.Store.Acquire(ctx, r); return err })
	if err != nil {
		res = driver.Result{}
	}
	return res, err
}

func (w *wire) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	err = w.call(ctx, "renew", r.ID, func() (err error) { behind, err = w.Store.Renew(ctx, r); return err })
	return behind, err
}

func (w *wire) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = w.Renew(ctx, r)
	}
	return out
}

func (w *wire) Release(ctx context.Context, id driver.ID) error {
	return w.call(ctx, "release", id, func() error { return w.Store.Release(ctx, id) })
}

func (w *wire) Show(ctx context.Context, key string) (out []driver.Claim, err error) {
	err = w.call(ctx, "show", driver.ID{}, func() (err error) { out, err = w.Store.Show(ctx, key); return err })
	return out, err
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

// story is the order of the events, without the asks and renewals.
func (p *tape) story() []distlock.EventType {
	var out []distlock.EventType
	for _, e := range p.all() {
		if e.Type != distlock.EventAttempted && e.Type != distlock.EventRenewed {
			out = append(out, e.Type)
		}
	}
	return out
}

// lockerOn returns a Locker that is closed at the end of the test.
func lockerOn(t testing.TB, s driver.Store, opts ...distlock.Option) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// taken takes a lock that is free.
func taken(t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option) *distlock.Lease {
	t.Helper()
	lease, err := l.TryLock(context.Background(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// wantErr fails unless err is all of targets.
func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("error %v, want %v", err, target)
		}
	}
}

// wantLoss fails unless err is a loss for a reason.
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

// wantStory fails unless the events came in this order.
func wantStory(t testing.TB, p *tape, want ...distlock.EventType) {
	t.Helper()
	if got := p.story(); !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
}

// over reports whether a channel is closed.
func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// trustOf is how long a lease of a TTL is trusted: the TTL without its margin.
func trustOf(ttl time.Duration) time.Duration { return ttl - max(ttl/100, min(ttl/10, time.Second)) }

// A slowObserver takes its time with the first event of a kind, until release.
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

// noContext is what a caller passes who has none.
var noContext context.Context
