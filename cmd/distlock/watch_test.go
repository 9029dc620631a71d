package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A countingStore counts the calls of List and Show. It can be made unreachable.
type countingStore struct {
	*mem.Store
	lists, shows atomic.Int64
	away         atomic.Bool
	noWatch      bool
}

func (c *countingStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	c.lists.Add(1)
	if c.away.Load() {
		return func(yield func(driver.Claim, error) bool) { yield(driver.Claim{}, driver.ErrUnavailable) }
	}
	return c.Store.List(ctx, prefix)
}

func (c *countingStore) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	c.shows.Add(1)
	if c.away.Load() {
		return nil, driver.ErrUnavailable
	}
	return c.Store.Show(ctx, key)
}

func (c *countingStore) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if c.noWatch {
		return nil
	}
	return c.Store.Watch(ctx, id)
}

// A watchTest is a watch in a bubble, and the events that it emitted.
type watchTest struct {
	*testing.T
	store  *countingStore
	mu     sync.Mutex
	events []string
}

// testWatch starts a watch with an interval of a second, and then runs f.
func testWatch(t *testing.T, s *countingStore, f func(o *watchTest)) {
	synctest.Test(t, func(t *testing.T) {
		s.Store = mem.New()
		o := &watchTest{T: t, store: s}
		l, err := distlock.New(s)
		if err != nil {
			t.Fatal(err)
		}
		o.grant("before", "a", time.Hour)
		w := &watcher{locker: l, store: s, interval: time.Second, emit: func(e event) error {
			text := e.Event
			if e.claimJSON != nil {
				text += " " + e.Name + " " + e.Holder
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.events = append(o.events, text)
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.run(ctx) }()
		synctest.Wait()
		o.expect("held before a")
		f(o)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (o *watchTest) acquire(key, owner string, ttl, queueTTL time.Duration, value string) {
	o.Helper()
	if _, err := o.store.Acquire(o.Context(), driver.Request{
		ID: driver.ID{Key: key, Owner: owner}, Weight: driver.Whole, Limit: driver.Whole,
		TTL: ttl, QueueTTL: queueTTL, Holder: owner, Value: []byte(value),
	}); err != nil {
		o.Error(err)
	}
}

func (o *watchTest) grant(key, owner string, ttl time.Duration) { o.acquire(key, owner, ttl, 0, "") }

func (o *watchTest) release(key, owner string) {
	o.Helper()
	if err := o.store.Release(o.Context(), driver.ID{Key: key, Owner: owner}); err != nil {
		o.Error(err)
	}
}

// expect fails the test unless exactly these events were emitted since the last call.
func (o *watchTest) expect(want ...string) {
	o.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.events, want) {
		o.Errorf("events %q, want %q", o.events, want)
	}
	o.events = nil
}

func TestWatch(t *testing.T) {
	testWatch(t, &countingStore{noWatch: true}, func(o *watchTest) {
		o.grant("key", "a", time.Minute)
		o.expect()
		time.Sleep(time.Second)
		o.expect("granted key a")
		o.acquire("key", "b", time.Minute, time.Minute, "")
		o.acquire("key", "c", time.Minute, time.Minute, "")
		time.Sleep(time.Second)
		o.expect("queued key b", "queued key c")
		o.release("key", "c")
		time.Sleep(time.Second)
		o.expect("left key c")
		o.release("key", "a")
		o.acquire("key", "b", 5*time.Second, time.Minute, "")
		time.Sleep(time.Second)
		o.expect("released key a", "granted key b")
		renewal := driver.Renewal{ID: driver.ID{Key: "key", Owner: "b"}, TTL: 2 * time.Second, Value: []byte("x")}
		if _, err := o.store.Renew(o.Context(), renewal); err != nil {
			o.Error(err)
		}
		time.Sleep(time.Second)
		o.expect("changed key b")
		time.Sleep(2 * time.Second)
		o.expect("ended key b")
		if n := o.store.shows.Load(); n > 0 {
			o.Errorf("%d names were refreshed without a hint", n)
		}
		lists := o.store.lists.Load()
		time.Sleep(100 * time.Second)
		if n := o.store.lists.Load() - lists; n > 101 {
			o.Errorf("%d lists in 100 s, want one a second", n)
		}
		o.expect()
	})
}

// After the notification of a release, watch refreshes the name at once, but only a bounded number
// of times.
func TestWatch_hints(t *testing.T) {
	testWatch(t, &countingStore{}, func(o *watchTest) {
		o.grant("key", "a", time.Minute)
		time.Sleep(time.Second)
		o.expect("granted key a")
		time.Sleep(100 * time.Millisecond)
		lists, shows := o.store.lists.Load(), o.store.shows.Load()
		o.release("key", "a")
		o.expect("released key a")
		if l, s := o.store.lists.Load()-lists, o.store.shows.Load()-shows; l != 0 || s != 1 {
			o.Errorf("%d lists and %d names, want one name", l, s)
		}
		o.release("before", "a")
		time.Sleep(100 * time.Millisecond)
		o.expect("released before a")
		o.grant("busy", "a", time.Hour)
		time.Sleep(time.Second)
		o.expect("granted busy a")
		shows = o.store.shows.Load()
		for range 1000 {
			o.release("busy", "a")
			o.grant("busy", "a", time.Hour)
			time.Sleep(time.Millisecond)
		}
		if n := o.store.shows.Load() - shows; n > hintsPerInterval+1 {
			o.Errorf("%d names were refreshed in a second, want at most %d", n, hintsPerInterval)
		}
	})
}

func TestWatch_away(t *testing.T) {
	testWatch(t, &countingStore{noWatch: true}, func(o *watchTest) {
		o.store.away.Store(true)
		time.Sleep(5 * time.Second)
		o.expect("away")
		o.release("before", "a")
		o.grant("later", "b", time.Hour)
		time.Sleep(5 * time.Second)
		o.expect()
		o.store.away.Store(false)
		time.Sleep(time.Second)
		o.expect("back", "released before a", "granted later b")
	})
}

func TestWatch_firstList(t *testing.T) {
	s := &countingStore{Store: mem.New()}
	s.away.Store(true)
	l, err := distlock.New(s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close(t.Context()) }()
	w := &watcher{locker: l, store: s, interval: time.Second}
	if err := w.run(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%v, want the error of the first list", err)
	}
}

func TestWriteEvent(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := newClaimJSON(distlock.Claim{
		Name: "deploy", Kind: distlock.KindLock, Holder: "ci-3\x1b[2J", Note: "why\n",
		Mode: distlock.ModeExclusive, Fence: 41, Held: 12 * time.Second,
	})
	for what, want := range map[string]string{
		eventGranted:  "03:04:05  granted   deploy            ci-3?[2J, exclusive, fence 41: why?\n",
		eventReleased: "03:04:05  released  deploy            ci-3?[2J, exclusive, fence 41, for 12s: why?\n",
	} {
		var out bytes.Buffer
		if err := writeEvent(&out, event{Time: at, Event: what, claimJSON: &l}); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
	text, err := json.Marshal(event{Time: at, Event: eventGranted, claimJSON: &l})
	const want = `{"time":"2026-01-02T03:04:05Z","event":"granted","name":"deploy","kind":"lock","mode":"exclusive","holder":`
	if err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("%s, %v", text, err)
	}
	text, err = json.Marshal(event{Time: at, Event: eventAway, Error: "gone"})
	if err != nil || string(text) != `{"time":"2026-01-02T03:04:05Z","event":"away","error":"gone"}` {
		t.Errorf("%s, %v", text, err)
	}
}

// Lists take at most a tenth of the time, even if there are many claims.
func TestWatch_pause(t *testing.T) {
	t.Parallel()
	w := &watcher{interval: time.Second}
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 50 * time.Millisecond: time.Second, time.Second: 9 * time.Second,
	} {
		if got := w.pause(took); got != want {
			t.Errorf("after a list of %v: %v, want %v", took, got, want)
		}
	}
}
