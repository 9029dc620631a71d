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

// A flakyStore is a memory store behind a connection that can be cut. It counts the calls.
type flakyStore struct {
	*mem.Store
	f driver.Features

	mu     sync.Mutex
	calls  map[string]int
	owners map[string]bool                              // every secret that a call carried
	before func(ctx context.Context, verb string) error // an error: the store does not get the call
	after  func(ctx context.Context, verb string) error // an error: the answer of the store is lost
}

func newFlakyStore() *flakyStore {
	s := mem.New()
	return &flakyStore{Store: s, f: s.Features(), calls: map[string]int{}, owners: map[string]bool{}}
}

// cut makes every call fail without effect until mend.
func (s *flakyStore) cut() { s.on(func(context.Context, string) error { return errCut }, nil) }

// freeze makes every call hang until its context ends.
func (s *flakyStore) freeze() {
	s.on(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, nil)
}

// deafen drops the answers to a verb.
func (s *flakyStore) deafen(verb string) {
	s.on(nil, func(_ context.Context, v string) error {
		if v == verb {
			return errCut
		}
		return nil
	})
}

func (s *flakyStore) mend() { s.on(nil, nil) }

func (s *flakyStore) on(before, after func(context.Context, string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// count returns the number of calls of a verb, or of all verbs if verb is empty.
func (s *flakyStore) count(verb string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v, c := range s.calls {
		if verb == "" || v == verb {
			n += c
		}
	}
	return n
}

// secrets returns the owners that the store has seen.
func (s *flakyStore) secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for o := range s.owners {
		out = append(out, o)
	}
	return out
}

func (s *flakyStore) call(ctx context.Context, verb string, id driver.ID, do func() error) error {
	s.mu.Lock()
	s.calls[verb]++
	if id.Owner != "" {
		s.owners[id.Owner] = true
	}
	before, after := s.before, s.after
	s.mu.Unlock()
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

func (s *flakyStore) Features() driver.Features { return s.f }

func (s *flakyStore) Acquire(ctx context.Context, r driver.Request) (res driver.Result, err error) {
	err = s.call(ctx, "acquire", r.ID, func() (err error) { res, err = s.Store.Acquire(ctx, r); return err })
	if err != nil {
		res = driver.Result{}
	}
	return res, err
}

func (s *flakyStore) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	err = s.call(ctx, "renew", r.ID, func() (err error) { behind, err = s.Store.Renew(ctx, r); return err })
	return behind, err
}

func (s *flakyStore) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = s.Renew(ctx, r)
	}
	return out
}

func (s *flakyStore) Release(ctx context.Context, id driver.ID) error {
	return s.call(ctx, "release", id, func() error { return s.Store.Release(ctx, id) })
}

func (s *flakyStore) Show(ctx context.Context, key string) (out []driver.Claim, err error) {
	err = s.call(ctx, "show", driver.ID{}, func() (err error) { out, err = s.Store.Show(ctx, key); return err })
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

// wantErr ends the test unless err matches each target.
func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("error %v, want %v", err, target)
		}
	}
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
