package distlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
)

// each acquires a lease of a name for each kind that has leases, without a wait where the kind can
// do so, and calls f with it. It returns the error of each kind.
func each(t *testing.T, l *distlock.Locker, name string, f func(kind distlock.Kind, lease *distlock.Lease)) map[distlock.Kind]error {
	t.Helper()
	ctx := t.Context()
	work := func(ctx context.Context) error {
		lease := distlock.FromContext(ctx)
		f(lease.Kind(), lease)
		return errCut
	}
	sem, err := l.Semaphore(1)
	wants(t, err, nil)
	once, err := distlock.NewOnce[int](l, time.Second, nil)
	wants(t, err, nil)
	election, err := l.Election()
	wants(t, err, nil)
	errs := map[distlock.Kind]error{
		distlock.KindLock:      l.Do(ctx, name, work, distlock.MaxWait(0)),
		distlock.KindSemaphore: sem.Do(ctx, name, work, distlock.MaxWait(0)),
	}
	standing, resign := context.WithCancel(ctx)
	errs[distlock.KindElection] = election.Run(standing, name, func(ctx context.Context, _ *distlock.Term) error {
		defer resign() // also if the lease was lost: it does not stand again
		return work(ctx)
	})
	_, errs[distlock.KindOnce] = once.Do(ctx, name, func(ctx context.Context) (int, error) { return 0, work(ctx) }, distlock.MaxWait(0))
	return errs
}

// Leases, handles, events and errors have the kind of their lock, and show it to people: a lock and
// an election of one name are not mixed up.
func TestKind(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		var p tape
		ctx, l := t.Context(), g.locker(t, distlock.Observe(p.observe))
		shows := func(what string, text string, kind distlock.Kind) {
			t.Helper()
			want := kind.Noun() + ` "x"`
			if kind == distlock.KindLock {
				want = `"x"`
			}
			if !strings.Contains(text, " "+want) || kind == distlock.KindLock && strings.Contains(text, "lock \"") {
				t.Errorf("%s of %s: %s", what, kind, text)
			}
		}
		seen := map[distlock.Kind]bool{}
		each(t, l, "x", func(kind distlock.Kind, lease *distlock.Lease) {
			seen[kind] = true
			shows("a lease", lease.String(), kind)
			if _, err := l.Break(ctx, kind, "x", 0, "for a test"); err != nil {
				t.Error(err)
			}
			err := lease.Extend(ctx, time.Minute)
			var lost *distlock.LostError
			if !errors.As(err, &lost) || lost.Kind != kind || lost.Name != "x" {
				t.Errorf("a loss of %s: %+v", kind, err)
				return
			}
			shows("a loss", lost.Error(), kind)
		})
		if len(seen) != 4 {
			t.Errorf("there were leases of %v", seen)
		}
		p.kinds(t, seen)
		each(t, l, "x", func(kind distlock.Kind, lease *distlock.Lease) {
			h, err := lease.Detach(ctx)
			if err != nil || h.Kind() != kind || h.Name() != "x" {
				t.Errorf("a handle of %s: %v, %v", kind, h, err)
			}
			shows("a handle", h.String(), kind)
		})
	})
}

// Errors have the kind of the lock that the call was for.
func TestKind_errors(t *testing.T) {
	w := newFlakyStore()
	l, other := lockerOn(t, w), lockerOn(t, w)
	ctx := t.Context()
	each(t, l, "x", func(kind distlock.Kind, _ *distlock.Lease) {
		if kind == distlock.KindElection {
			return // candidates wait
		}
		err := heldBy(ctx, t, other, kind)
		var held *distlock.HeldError
		if !errors.As(err, &held) || held.Kind != kind || held.Name != "x" {
			t.Errorf("%s is held: %+v", kind, err)
		}
	})
	w.cut()
	for kind, err := range each(t, other, "x", func(kind distlock.Kind, _ *distlock.Lease) { t.Errorf("%s was granted", kind) }) {
		var op *distlock.OpError
		if !errors.As(err, &op) || op.Kind != kind || op.Name != "x" {
			t.Errorf("a failure of %s: %+v", kind, err)
		}
	}
	_, err := other.Status(ctx, distlock.KindElection, "x")
	var op *distlock.OpError
	if !errors.As(err, &op) || op.Kind != distlock.KindElection || err.Error() != `distlock: show election "x": connection cut` {
		t.Errorf("%v", err)
	}
	if err := other.Ping(ctx); !errors.As(err, &op) || op.Kind != distlock.KindAny {
		t.Errorf("%v", err)
	}
}

// heldBy returns the error of a call for a lock of a kind that is held.
func heldBy(ctx context.Context, t *testing.T, l *distlock.Locker, kind distlock.Kind) error {
	t.Helper()
	never := func(context.Context) error { t.Errorf("%s was granted", kind); return nil }
	switch kind {
	case distlock.KindSemaphore:
		sem, err := l.Semaphore(1)
		wants(t, err, nil)
		return sem.Do(ctx, "x", never, distlock.MaxWait(0))
	case distlock.KindOnce:
		once, err := distlock.NewOnce[int](l, time.Second, nil)
		wants(t, err, nil)
		_, err = once.Do(ctx, "x", valued(never), distlock.MaxWait(0))
		return err
	}
	return l.Do(ctx, "x", never, distlock.MaxWait(0))
}

// kinds checks that the events are of these kinds and of no other.
func (p *tape) kinds(t *testing.T, want map[distlock.Kind]bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := map[distlock.Kind]bool{}
	for _, e := range p.events {
		got[e.Kind] = true
		if !want[e.Kind] {
			t.Errorf("an event of kind %q: %+v", e.Kind, e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("events of the kinds %v, want %v", got, want)
	}
}
