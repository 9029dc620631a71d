package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/locktest"
	"github.com/distlock/distlock/store/mem"
)

func TestOption_refused(t *testing.T) {
	many := func(n int, key func(i int) string, value string) []distlock.Option {
		var opts []distlock.Option
		for i := range n {
			opts = append(opts, distlock.Meta(key(i), value))
		}
		return opts
	}
	char := func(i int) string { return string(rune('a' + i)) }
	one := func(o distlock.Option) []distlock.Option { return []distlock.Option{o} }
	cases := []struct {
		name string
		opts []distlock.Option
		what string
		says string
	}{
		{"TTL 0", one(distlock.TTL(0)), "TTL", "0s is not 100ms to 24h0m0s"},
		{"TTL negative", one(distlock.TTL(-time.Second)), "TTL", "-1s is not 100ms to 24h0m0s"},
		{"TTL 1ns", one(distlock.TTL(1)), "TTL", "1ns is not"},
		{"TTL 99ms", one(distlock.TTL(99 * time.Millisecond)), "TTL", "99ms is not"},
		{"TTL 24h and a bit", one(distlock.TTL(24*time.Hour + 1)), "TTL", "is not 100ms to 24h"},
		{"TTL greatest", one(distlock.TTL(math.MaxInt64)), "TTL", "is not 100ms to 24h"},
		{"TTL least", one(distlock.TTL(math.MinInt64)), "TTL", "is not 100ms to 24h"},
		{"wait negative", one(distlock.MaxWait(-1)), "wait", "invalid wait: -1ns is below 0s"},
		{"no attempts", one(distlock.MaxAttempts(0)), "attempts", "invalid attempts: 0 is below 1"},
		{"attempts negative", one(distlock.MaxAttempts(-1)), "attempts", "-1 is below 1"},
		{"backoff 0", one(distlock.Backoff(0, time.Second)), "backoff", "from 0s to 1s is not 1ms to 1h"},
		{"backoff backwards", one(distlock.Backoff(time.Second, time.Millisecond)), "backoff", "backoff"},
		{"backoff long", one(distlock.Backoff(time.Second, 2*time.Hour)), "backoff", "backoff"},
		{"max hold 0", one(distlock.MaxHold(0)), "longest hold", "longest hold: 0s is below 1ns"},
		{"max hold negative", one(distlock.MaxHold(-1)), "longest hold", "longest hold"},
		{"max hold long", one(distlock.MaxHold(25 * time.Hour)), "longest hold", "longest hold: 25h0m0s is above 24h0m0s"},
		{"min hold 0", one(distlock.MinHold(0)), "shortest hold", "shortest hold: 0s is below 1ns"},
		{"min hold long", one(distlock.MinHold(math.MaxInt64)), "shortest hold", "is above 24h0m0s"},
		{"lock delay negative", one(distlock.LockDelay(-1)), "lock delay", "lock delay: -1ns is below 0s"},
		{"lock delay long", one(distlock.LockDelay(math.MaxInt64)), "lock delay", "is above 24h0m0s"},
		{"holder empty", one(distlock.Holder("")), "holder", "holder: empty"},
		{"holder long", one(distlock.Holder(strings.Repeat("x", 129))), "holder", "has 129 bytes, more than 128"},
		{"holder with a line break", one(distlock.Holder("a\nb")), "holder", "contains U+000A"},
		{"holder not UTF-8", one(distlock.Holder("a\xff")), "holder", "not UTF-8"},
		{"value too long", one(distlock.Value(make([]byte, 64<<10+1))), "value", "65537 bytes are over 65536"},
		{"meta reserved", one(distlock.Meta("_x", "")), "metadata", `key "_x": a leading underscore is reserved`},
		{"meta key empty", one(distlock.Meta("", "v")), "metadata", "key: empty"},
		{"meta key long", one(distlock.Meta(strings.Repeat("x", 65), "v")), "metadata", "has 65 bytes, more than 64"},
		{"meta key not UTF-8", one(distlock.Meta("\xff", "v")), "metadata", "not UTF-8"},
		{"meta key control", one(distlock.Meta("a\x00", "v")), "metadata", "contains U+0000"},
		{"meta value long", one(distlock.Meta("k", strings.Repeat("x", 257))), "metadata", `value of "k" must be UTF-8 of at most 256`},
		{"meta value not UTF-8", one(distlock.Meta("k", "\xff")), "metadata", "must be UTF-8"},
		{"note long", one(distlock.Note(strings.Repeat("x", 257))), "metadata", "at most 256 bytes"},
		{"meta too many", many(17, char, "v"), "metadata", "17 entries of 34 bytes are over 16 or 4096"},
		{"meta too much", many(16, char, strings.Repeat("x", 256)), "metadata", "16 entries of 4112 bytes are over 16 or 4096"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			_, err1 := distlock.New(w, c.opts...)
			_, err2 := l.Lock(t.Context(), "x", c.opts...)
			_, err3 := l.TryRLock(t.Context(), "x", c.opts...)
			err4 := l.Do(t.Context(), "x", func(context.Context) error { t.Error("f ran"); return nil }, c.opts...)
			for _, err := range []error{err1, err2, err3, err4} {
				wantInvalid(t, err, c.what)
				if !strings.Contains(err.Error(), c.says) {
					t.Errorf("message %q, want %q", err, c.says)
				}
				wantPlain(t, err.Error())
			}
			if n := w.count(""); n != 0 {
				t.Errorf("the store was called %d times", n)
			}
		})
	}
}

func TestOption_storeBounds(t *testing.T) {
	w := newGate()
	w.features = func(f *driver.Features) {
		f.MinTTL, f.MaxTTL, f.MaxTTLOption = 2*time.Second, time.Minute, "LongestTTL"
	}
	for _, c := range []struct {
		opts []distlock.Option
		says string
	}{
		{[]distlock.Option{distlock.TTL(time.Second)}, "1s is below the 2s of store mem"},
		{[]distlock.Option{distlock.TTL(2 * time.Minute)}, "2m0s is above the 1m0s of store mem"},
		{[]distlock.Option{distlock.TTL(time.Minute), distlock.LockDelay(time.Second)}, "1m1s is above the 1m0s of store mem"},
		{[]distlock.Option{distlock.MinHold(time.Hour)}, "shortest hold: 1h0m0s is above the 1m0s of store mem"},
		{[]distlock.Option{distlock.TTL(time.Hour)}, "1h0m0s is above the 1m0s of store mem, which LongestTTL raises"},
	} {
		_, err := distlock.New(w, c.opts...)
		wants(t, err, distlock.ErrInvalid)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("message %q, want %q", err, c.says)
		}
	}
	for _, bounds := range []driver.Features{{MinTTL: time.Minute}, {MaxTTL: time.Second}} { // the default TTL fits in
		w := newGate()
		w.features = func(f *driver.Features) { f.MinTTL, f.MaxTTL = bounds.MinTTL, bounds.MaxTTL }
		taken(t, lockerOn(t, w), "x")
	}
}

func TestOption_unsupported(t *testing.T) {
	without := func(change func(f *driver.Features)) *gate {
		w := newGate()
		w.features = change
		return w
	}
	detached := without(func(f *driver.Features) { f.Detached = false })
	values := without(func(f *driver.Features) { f.Value = false })
	fences := without(func(f *driver.Features) { f.Fence, f.Floor = false, false })
	for _, c := range []struct {
		w    *gate
		opt  distlock.Option
		says string
	}{
		{detached, distlock.MinHold(time.Second), "distlock: store mem keeps no claim without its process, as MinHold needs: unsupported operation"},
		{detached, distlock.LockDelay(time.Second), "distlock: store mem keeps no claim without its process, as LockDelay needs: unsupported operation"},
		{values, distlock.Value([]byte("v")), "distlock: store mem stores no values: unsupported operation"},
		{values, distlock.Meta("k", "v"), "distlock: store mem stores no values: unsupported operation"},
		{values, distlock.Note("n"), "distlock: store mem stores no values: unsupported operation"},
		{fences, distlock.RequireFence(), "distlock: store mem gives no fences: unsupported operation"},
	} {
		_, err := distlock.New(c.w, c.opt)
		wants(t, err, errors.ErrUnsupported)
		if err.Error() != c.says {
			t.Errorf("message %q, want %q", err, c.says)
		}
		_, err = lockerOn(t, c.w).TryLock(t.Context(), "x", c.opt)
		wants(t, err, errors.ErrUnsupported)
		if n := c.w.count(""); n != 0 {
			t.Errorf("the store was called %d times", n)
		}
	}
	lockerOn(t, newGate(), distlock.RequireFence(), distlock.MinHold(1), distlock.LockDelay(1), distlock.Note("n"))
}

func TestOption_nil(t *testing.T) {
	for _, store := range []driver.Store{nil, (*mem.Store)(nil), (*locktest.Store)(nil)} {
		if _, err := distlock.New(store); !errors.Is(err, distlock.ErrInvalid) {
			t.Errorf("a nil %T: %v", store, err)
		}
	}
	l := lockerOn(t, newGate(), nil, distlock.TTL(time.Minute), nil)
	lease := taken(t, l, "x", nil, distlock.Value(nil), distlock.Observe(nil), nil)
	if left := time.Until(lease.Until()); left < 50*time.Second || left > time.Minute {
		t.Errorf("%v left", left)
	}
	if _, err := l.Lock(t.Context(), "x", nil, distlock.MaxWait(0)); !errors.Is(err, distlock.ErrHeld) {
		t.Error(err)
	}
}

func TestOption_nilContext(t *testing.T) {
	w := newGate()
	l := lockerOn(t, w)
	lease := taken(t, l, "held")
	h := given(t, l, "given")
	n := w.count("")
	f := func(context.Context) error { t.Error("f ran"); return nil }
	var none context.Context
	for call, err := range map[string]error{
		"Lock":       errOf(l.Lock(none, "x")),
		"TryLock":    errOf(l.TryLock(none, "x")),
		"RLock":      errOf(l.RLock(none, "x")),
		"TryRLock":   errOf(l.TryRLock(none, "x")),
		"Do":         l.Do(none, "x", f),
		"TryDo":      errOf(l.TryDo(none, "x", f)),
		"DoValue":    errOf(distlock.DoValue(none, l, "x", func(ctx context.Context) (int, error) { return 0, f(ctx) })),
		"Status":     errOf(l.Status(none, distlock.KindLock, "x")),
		"Attach":     errOf(l.Attach(none, h)),
		"Ping":       l.Ping(none),
		"ReleaseAll": l.ReleaseAll(none),
		"Close":      l.Close(none),
		"Extend":     lease.Extend(none, time.Minute),
		"Unlock":     lease.Unlock(none),
	} {
		if !errors.Is(err, distlock.ErrInvalid) || err.Error() != "distlock: invalid context: it is nil" {
			t.Errorf("%s: %v", call, err)
		}
	}
	for _, err := range l.List(none, distlock.KindAny, "") {
		wants(t, err, distlock.ErrInvalid)
	}
	if w.count("") != n || lease.Err() != nil {
		t.Error("it had an effect")
	}
}

func TestOption_deadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		lease := taken(t, l, "held")
		mine := errors.New("mine")
		cancelled, cancel := context.WithCancelCause(t.Context())
		cancel(mine)
		late, cancel2 := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
		defer cancel2()
		n := w.count("")
		f := func(context.Context) error { t.Error("f ran"); return nil }
		for ctx, want := range map[context.Context]error{cancelled: mine, late: context.DeadlineExceeded} {
			for call, err := range map[string]error{
				"Lock":    errOf(l.Lock(ctx, "x")),
				"TryLock": errOf(l.TryLock(ctx, "x")),
				"RLock":   errOf(l.RLock(ctx, "x")),
				"Do":      l.Do(ctx, "x", f),
				"TryDo":   errOf(l.TryDo(ctx, "x", f)),
				"Status":  errOf(l.Status(ctx, distlock.KindLock, "x")),
				"Ping":    l.Ping(ctx),
				"Extend":  lease.Extend(ctx, time.Minute),
			} {
				if !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", call, err, want)
				}
			}
			for _, err := range l.List(ctx, distlock.KindAny, "") {
				wants(t, err, want)
			}
		}
		if got := w.count(""); got != n {
			t.Errorf("the store was called %d times", got-n)
		}
	})
}

func TestOption_waitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		lease := taken(t, lockerOn(t, w), "x")
		l := lockerOn(t, w)
		got := make(chan error, 1)
		go func() { got <- errOf(l.Lock(t.Context(), "x", distlock.MaxWait(math.MaxInt64))) }()
		time.Sleep(time.Duration(few(24)) * time.Hour)
		select {
		case err := <-got:
			t.Fatalf("gave up: %v", err)
		default:
		}
		_ = lease.Unlock(t.Context())
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	})
}

func TestOption_defaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.TTL(time.Minute), distlock.Holder("us"), distlock.Meta("a", "1"), distlock.Meta("b", "1"), distlock.Note("all"))
		taken(t, l, "x", distlock.Meta("b", "2"), distlock.Meta("b", "3"), distlock.TTL(time.Hour), distlock.Value([]byte("v")))
		taken(t, l, "y")
		why, err := l.Status(t.Context(), distlock.KindLock, "x")
		if err != nil {
			t.Fatal(err)
		}
		c := why.Holders[0]
		if c.Holder != "us" || len(c.Meta) != 2 || c.Meta["a"] != "1" || c.Meta["b"] != "3" || c.Note != "all" || c.Left != time.Hour || string(c.Value) != "v" {
			t.Errorf("%+v", c)
		}
		why, _ = l.Status(t.Context(), distlock.KindLock, "y")
		c = why.Holders[0]
		if c.Meta["b"] != "1" || c.Left != time.Minute || len(c.Value) != 0 {
			t.Errorf("the options of one call stayed: %+v", c)
		}
		value := []byte("mine")
		opt := distlock.Value(value)
		taken(t, l, "z", opt)
		value[0] = 'X'
		why, _ = l.Status(t.Context(), distlock.KindLock, "z")
		if string(why.Holders[0].Value) != "mine" {
			t.Errorf("value %q", why.Holders[0].Value)
		}
	})
}

func TestOption_callersSlice(t *testing.T) {
	l := lockerOn(t, newGate())
	opts := append(make([]distlock.Option, 0, 4), distlock.TTL(time.Minute))
	rest := opts[:2]
	mark := distlock.Holder("mine")
	rest[1] = mark
	taken(t, l, "x", opts...)
	h := given(t, l, "y", opts...)
	if _, err := l.Attach(t.Context(), h, opts...); !errors.Is(err, distlock.ErrInvalid) {
		t.Fatal(err)
	}
	lease := taken(t, l, "z", slices.Clone(rest)...)
	why, _ := l.Status(t.Context(), distlock.KindLock, lease.Name())
	if why.Holders[0].Holder != "mine" {
		t.Error("a call wrote into the slice of its caller")
	}
}

// The options of a constructor are the defaults of its calls, and the options of a call win.
func TestOptions_constructor(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l, opt := t.Context(), g.locker(t, distlock.Holder("locker")), distlock.Holder("constructor")
		holds := func(kind distlock.Kind, name, want string) {
			t.Helper()
			s, err := l.Status(ctx, kind, name)
			if err != nil || len(s.Holders) != 1 || s.Holders[0].Holder != want {
				t.Errorf("%v, %v, want the holder %s", s, err, want)
			}
		}
		sem, err := l.Semaphore(2, opt, distlock.Weight(2))
		wants(t, err, nil)
		limit, err := l.Limiter(2, time.Minute, opt, distlock.Weight(2))
		wants(t, err, nil)
		once, err := distlock.NewOnce[int](l, time.Minute, nil, opt)
		wants(t, err, nil)
		election, err := l.Election(opt)
		wants(t, err, nil)
		for want, opts := range map[string][]distlock.Option{"constructor": nil, "call": {distlock.Holder("call")}} {
			free(t, must(t)(sem.Acquire(ctx, want, opts...)))
			wants(t, sem.Do(ctx, want, func(context.Context) error {
				holds(distlock.KindSemaphore, want, want)
				_, err := sem.TryAcquire(ctx, want, distlock.Weight(1))
				wants(t, err, distlock.ErrHeld)
				return nil
			}, opts...), nil)
			wants(t, limit.Allow(ctx, want, opts...), nil)
			holds(distlock.KindRateLimit, want, want)
			wants(t, limit.Allow(ctx, want, distlock.Weight(1)), distlock.ErrLimited)
			_, err = once.Do(ctx, want, func(context.Context) (int, error) {
				holds(distlock.KindOnce, want, want)
				return 1, nil
			}, opts...)
			wants(t, err, nil)
			wants(t, election.Run(ctx, want, func(context.Context, *distlock.Term) error {
				holds(distlock.KindElection, want, want)
				return errCut
			}, opts...), errCut)
		}
	})
}

// An option of one kind of lock is refused by the other kinds, unless it is a default of the
// Locker.
func TestOptions_otherKind(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l := g.locker(t)
		sem, err := l.Semaphore(2)
		if err != nil {
			t.Fatal(err)
		}
		for name, opt := range map[string]distlock.Option{"Exact": distlock.Exact(), "Preferred": distlock.Preferred(), "Weight": distlock.Weight(2)} {
			for call, lock := range map[string]takeFunc{"Lock": l.Lock, "TryLock": l.TryLock, "RLock": l.RLock} {
				if _, err := lock(ctx, "x", opt); !errors.Is(err, distlock.ErrInvalid) {
					t.Errorf("%s with %s: %v", call, name, err)
				}
			}
			if _, err := sem.Acquire(ctx, "x", opt); errors.Is(err, distlock.ErrInvalid) == (name == "Weight") {
				t.Errorf("a semaphore with %s: %v", name, err)
			}
		}
		_, semaphore := l.Semaphore(2, distlock.Exact())
		_, limiter := l.Limiter(2, time.Minute, distlock.Preferred())
		_, election := l.Election(distlock.Exact())
		_, once := distlock.NewOnce[int](l, time.Minute, nil, distlock.Weight(2))
		_, cron := l.Cron(nil, distlock.Preferred())
		for kind, err := range map[string]error{"Semaphore": semaphore, "Limiter": limiter, "Election": election, "NewOnce": once, "Cron": cron} {
			if !errors.Is(err, distlock.ErrInvalid) {
				t.Errorf("%s with an option of another kind: %v", kind, err)
			}
		}
		free(t, must(t)(g.locker(t, distlock.Exact(), distlock.Preferred()).Lock(ctx, "defaults")))
	})
}

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
			if _, err := l.Break(ctx, kind, "x", distlock.AllFences, "for a test"); err != nil {
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
	w := newGate()
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

// badNames are refused names, with the reason.
var badNames = map[string]string{
	"":                               "empty",
	" ":                              "only spaces",
	"\u00a0\u2003 ":                  "only spaces",
	strings.Repeat("x", 256):         "256 bytes, more than 255",
	strings.Repeat("\U0001F600", 64): "256 bytes, more than 255",
	strings.Repeat("x", 1<<20):       "more than 255",
	"a\xff":                          "not UTF-8",
	"\xed\xa0\x80":                   "not UTF-8",
	"a\x00b":                         "contains U+0000",
	"a\nb":                           "contains U+000A",
	"a\tb":                           "contains U+0009",
	"\x1b[31mred":                    "contains U+001B",
	"a\u007f":                        "contains U+007F",
	"a\u0085b":                       "contains U+0085",
	"a\u2028b":                       "contains U+2028",
	"a\u2029b":                       "contains U+2029",
	"a\u202ab":                       "contains U+202A",
	"a\u202eb":                       "contains U+202E",
	"a\u2066b":                       "contains U+2066",
	"a\u2069b":                       "contains U+2069",
	"\ufeffa":                        "contains U+FEFF",
}

func TestName_refused(t *testing.T) {
	w := newGate()
	l := lockerOn(t, w)
	f := func(context.Context) error { t.Error("f ran"); return nil }
	calls := map[string]func(name string) error{
		"Lock":     func(n string) error { _, err := l.Lock(t.Context(), n); return err },
		"TryLock":  func(n string) error { _, err := l.TryLock(t.Context(), n); return err },
		"RLock":    func(n string) error { _, err := l.RLock(t.Context(), n); return err },
		"TryRLock": func(n string) error { _, err := l.TryRLock(t.Context(), n); return err },
		"Do":       func(n string) error { return l.Do(t.Context(), n, f) },
		"TryDo":    func(n string) error { _, err := l.TryDo(t.Context(), n, f); return err },
		"Status":   func(n string) error { _, err := l.Status(t.Context(), distlock.KindLock, n); return err },
		"DoValue": func(n string) error {
			_, err := distlock.DoValue(t.Context(), l, n, func(ctx context.Context) (int, error) { return 0, f(ctx) })
			return err
		},
	}
	for call, take := range calls {
		for name, why := range badNames {
			err := take(name)
			wantInvalid(t, err, "name")
			msg := err.Error()
			if !strings.Contains(msg, why) || !strings.HasPrefix(msg, "distlock: invalid name: ") {
				t.Errorf("%s: message %q, want %q", call, msg, why)
			}
			wantPlain(t, msg)
		}
	}
	if n := w.count(""); n != 0 {
		t.Errorf("the store was called %d times", n)
	}
}

// wantPlain fails if a message contains terminal control characters, or more than 64 bytes of
// input.
func wantPlain(t testing.TB, msg string) {
	t.Helper()
	for _, r := range msg {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == 0x2028 || r == 0x202e || r == 0xfeff {
			t.Errorf("the message contains %U: %q", r, msg)
		}
	}
	if strings.Contains(msg, strings.Repeat("x", 65)) || len(msg) > 400 {
		t.Errorf("the message echoes too much: %q", msg)
	}
}

func TestName_distinct(t *testing.T) {
	names := []string{
		"a", "a/", "/a", "a ", " a", "A", "é", "e\u0301", "{", "}", "{}", "{a}", "*", "?", "[", "[a]", "%", "%41", "_", "'", `"`, ";--", "..", "../a", "./a",
		"/etc/x", "$(x)", "a:b", "a\\b", "a|b", "~", "~~", "~a", "~~a", "~sem/a", "~~sem/a", "~rate/a", "~once/a", "~lead/a", "~check/a", "sem/a",
		"1", "01", "1.0", "true", "null", "日本", "\U0001F600", strings.Repeat("x", 255), strings.Repeat("x", 254), strings.Repeat("\U0001F600", 63),
	}
	w := newGate()
	l := lockerOn(t, w)
	for _, name := range names {
		lease := taken(t, l, name) // it is free: it is no other name's lock
		if lease.Name() != name {
			t.Errorf("%q became %q", name, lease.Name())
		}
	}
	var seen []string
	for c, err := range l.List(t.Context(), distlock.KindAny, "") {
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind != distlock.KindLock {
			t.Errorf("%q is of kind %s", c.Name, c.Kind)
		}
		seen = append(seen, c.Name)
	}
	slices.Sort(seen)
	slices.Sort(names)
	if !slices.Equal(seen, names) {
		t.Errorf("claims %q, want %q", seen, names)
	}
	for _, name := range names {
		if _, err := l.TryLock(t.Context(), name); !errors.Is(err, distlock.ErrHeld) {
			t.Errorf("%q: %v", name, err)
		}
		if why, err := l.Status(t.Context(), distlock.KindLock, name); err != nil || len(why.Holders) != 1 || why.Holders[0].Name != name {
			t.Errorf("%q: %v %v", name, why, err)
		}
	}
}

// An option without an effect is refused, with its name, by every call and constructor that it is
// given to. As a default of New it is ignored. docs/kinds.md has the same table.
func TestOption_withoutEffect(t *testing.T) {
	opts := map[string]distlock.Option{
		"TTL": distlock.TTL(time.Minute), "MaxWait": distlock.MaxWait(time.Second), "MaxAttempts": distlock.MaxAttempts(2),
		"Backoff": distlock.Backoff(time.Second, time.Second), "MaxHold": distlock.MaxHold(time.Hour), "MinHold": distlock.MinHold(time.Second),
		"LockDelay": distlock.LockDelay(time.Second), "Weight": distlock.Weight(1), "NoRenewal": distlock.NoRenewal(), "Exact": distlock.Exact(),
		"Preferred": distlock.Preferred(), "RequireFence": distlock.RequireFence(), "Holder": distlock.Holder("me"),
		"Value": distlock.Value([]byte("v")), "Meta": distlock.Meta("k", "v"), "Note": distlock.Note("n"), "Observe": distlock.Observe(func(context.Context, distlock.Event) {}),
		"OnClose": distlock.OnClose(func() {}),
	}
	const waiting, keeping = "MaxWait MaxAttempts Backoff", "TTL MaxHold MinHold LockDelay NoRenewal"
	none := func(context.Context) error { return nil }
	lead := func(context.Context, *distlock.Term) error { return errCut }
	type taker = func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error
	calls := map[string]struct {
		take    taker
		refuses string
	}{
		"Lock": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return l.Do(ctx, "x", none, opts...)
		}, "Weight Exact Preferred OnClose"},
		"TryLock": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.TryDo(ctx, "y", none, opts...))
		}, waiting + " Weight Exact Preferred OnClose"},
		"Attach": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Attach(ctx, given(t, l, fmt.Sprintf("%p", l)), opts...))
		}, waiting + " TTL MinHold LockDelay Weight Exact Preferred Holder Value Meta Note OnClose"},
		"Semaphore": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Semaphore(2, opts...))
		}, "Exact Preferred OnClose"},
		"Limiter": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Limiter(2, time.Minute, opts...))
		}, keeping + " Preferred OnClose"},
		"NewOnce": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(distlock.NewOnce[int](l, time.Minute, nil, opts...))
		}, "Weight Exact Preferred OnClose"},
		"Cron": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Cron(nil, opts...))
		}, waiting + " Weight Exact Preferred OnClose"},
		"Election": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Election(opts...))
		}, "MaxWait MaxAttempts Weight Exact OnClose"},
		"Election.Run": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			e, err := l.Election()
			wants(t, err, nil)
			if err = e.Run(ctx, "e", lead, opts...); errors.Is(err, errCut) {
				return nil
			}
			return err
		}, "MaxWait MaxAttempts Weight Exact OnClose"},
		"TryAcquire, defaults of the semaphore": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			s, err := l.Semaphore(2, opts...)
			if err == nil {
				_, err = s.TryDo(ctx, "s", none)
			}
			return err
		}, "Exact Preferred OnClose"},
	}
	for call, c := range calls {
		for name, opt := range opts {
			t.Run(call+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, g *gate) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					err := c.take(ctx, g.locker(t), opt)
					if !slices.Contains(strings.Fields(c.refuses), name) {
						wants(t, err, nil)
					} else if wantInvalid(t, err, "option"); name != "Note" && !strings.Contains(err.Error(), name) {
						t.Error(err)
					}
					wants(t, c.take(ctx, g.locker(t, opt)), nil)
				})
			})
		}
	}
}

// FuzzName checks that a name is refused with a reason, or is a lock of its own: listings return it
// unchanged, and no other name is the same lock.
func FuzzName(f *testing.F) {
	for name := range badNames {
		if len(name) < 300 {
			f.Add(name, "x")
		}
	}
	for _, pair := range [][2]string{{"a", "a/"}, {"~a", "~~a"}, {"~sem/a", "sem/a"}, {"é", "e\u0301"}, {"a", "A"}, {"{a}", "a"}, {"%41", "A"}, {"0", "!"}, {"a", "a"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		l := lockerOn(t, mem.New())
		var good []string
		for _, name := range []string{a, b} {
			lease, err := l.TryLock(t.Context(), name)
			switch {
			case err == nil:
				good = append(good, name)
				if lease.Name() != name || !utf8.ValidString(name) || strings.TrimSpace(name) == "" || len(name) > 255 {
					t.Errorf("%q was taken as %q", name, lease.Name())
				}
				p, err := distlock.ParseProof(lease.Proof())
				if err != nil || p.Name != name {
					t.Errorf("the proof of %q is of %q: %v", name, p.Name, err)
				}
			case errors.Is(err, distlock.ErrHeld):
				if a != b {
					t.Errorf("%q and %q are the same", a, b)
				}
			case invalidWhat(err) == "name":
				wantPlain(t, strings.ReplaceAll(err.Error(), "x", "y")) // the names may consist of x's
			default:
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, name := range good {
			found := 0
			for c, err := range l.List(t.Context(), distlock.KindAny, name) {
				if err != nil || c.Kind != distlock.KindLock || !strings.HasPrefix(c.Name, name) {
					t.Errorf("%q: %+v %v", name, c, err)
				}
				if c.Name == name {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%q was found %d times", name, found)
			}
		}
	})
}

// FuzzDurations checks that durations are refused with a reason, or are obeyed.
func FuzzDurations(f *testing.F) {
	for _, d := range []int64{-1 << 63, -1, 0, 1, 1e6, 99e6, 1e8, 3e10, 864e11, 864e11 + 1, 1<<63 - 1} {
		f.Add(d, d, d, d)
		f.Add(int64(3e10), int64(1e9), d, int64(1e9))
	}
	f.Add(int64(100000012), int64(99999836), int64(100000006), int64(99999937))
	f.Add(int64(3e10), int64(1e9), int64(58), int64(999999978))
	f.Fuzz(func(t *testing.T, ttl, minHold, maxHold, delay int64) {
		synctest.Test(t, func(t *testing.T) { // virtual time: a TTL may be as short as 100 ms
			const day = 24 * time.Hour
			a, b, c, d := time.Duration(ttl), time.Duration(minHold), time.Duration(maxHold), time.Duration(delay)
			w := newGate()
			l := lockerOn(t, w)
			lease, err := l.TryLock(t.Context(), "x", distlock.TTL(a), distlock.MinHold(b), distlock.MaxHold(c), distlock.LockDelay(d))
			good := a >= 100*time.Millisecond && a <= day && b > 0 && b <= day && c > 0 && c <= day && d >= 0 && d <= day
			if !good {
				if !errors.Is(err, distlock.ErrInvalid) || w.count("") > 0 {
					t.Errorf("TTL %v, shortest hold %v, longest %v, delay %v: %v", a, b, c, d, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			why, _ := l.Status(t.Context(), distlock.KindLock, "x")
			if left := why.Holders[0].Left; left > a+d || left < a+d-10*time.Second {
				t.Errorf("%v left of %v and %v", left, a, d)
			}
			if until := lease.Until(); time.Until(until) > min(a, c) {
				t.Errorf("trusted until %v", until)
			}
			if err := lease.Extend(t.Context(), d); (err == nil) != (d >= 100*time.Millisecond) && !errors.Is(err, distlock.ErrLost) {
				t.Errorf("extended by %v: %v", d, err)
			}
		})
	})
}
