package distlock_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
			w := newFlakyStore()
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
	w := newFlakyStore()
	w.f.MinTTL, w.f.MaxTTL, w.f.MaxTTLOption = 2*time.Second, time.Minute, "LongestTTL"
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
		wantErr(t, err, distlock.ErrInvalid)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("message %q, want %q", err, c.says)
		}
	}
	for _, f := range []driver.Features{{MinTTL: time.Minute}, {MaxTTL: time.Second}} { // the default TTL fits in
		w := newFlakyStore()
		w.f.MinTTL, w.f.MaxTTL = f.MinTTL, f.MaxTTL
		taken(t, lockerOn(t, w), "x")
	}
}

func TestOption_unsupported(t *testing.T) {
	without := func(change func(f *driver.Features)) *flakyStore {
		w := newFlakyStore()
		change(&w.f)
		return w
	}
	detached := without(func(f *driver.Features) { f.Detached = false })
	values := without(func(f *driver.Features) { f.Value = false })
	fences := without(func(f *driver.Features) { f.Fence, f.Floor = false, false })
	for _, c := range []struct {
		w    *flakyStore
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
		wantErr(t, err, errors.ErrUnsupported)
		if err.Error() != c.says {
			t.Errorf("message %q, want %q", err, c.says)
		}
		_, err = lockerOn(t, c.w).TryLock(t.Context(), "x", c.opt)
		wantErr(t, err, errors.ErrUnsupported)
		if n := c.w.count(""); n != 0 {
			t.Errorf("the store was called %d times", n)
		}
	}
	lockerOn(t, newFlakyStore(), distlock.RequireFence(), distlock.MinHold(1), distlock.LockDelay(1), distlock.Note("n"))
}

func TestOption_nil(t *testing.T) {
	for _, store := range []driver.Store{nil, (*mem.Store)(nil), (*locktest.Store)(nil)} {
		if _, err := distlock.New(store); !errors.Is(err, distlock.ErrInvalid) {
			t.Errorf("a nil %T: %v", store, err)
		}
	}
	l := lockerOn(t, newFlakyStore(), nil, distlock.TTL(time.Minute), nil)
	lease := taken(t, l, "x", nil, distlock.Value(nil), distlock.Observe(nil), nil)
	if left := time.Until(lease.Until()); left < 50*time.Second || left > time.Minute {
		t.Errorf("%v left", left)
	}
	if _, err := l.Lock(t.Context(), "x", nil, distlock.MaxWait(0)); !errors.Is(err, distlock.ErrHeld) {
		t.Error(err)
	}
}

func TestOption_nilContext(t *testing.T) {
	w := newFlakyStore()
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
		wantErr(t, err, distlock.ErrInvalid)
	}
	if w.count("") != n || lease.Err() != nil {
		t.Error("it had an effect")
	}
}

func TestOption_deadContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyStore()
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
				wantErr(t, err, want)
			}
		}
		if got := w.count(""); got != n {
			t.Errorf("the store was called %d times", got-n)
		}
	})
}

func TestOption_waitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyStore()
		lease := taken(t, lockerOn(t, w), "x")
		l := lockerOn(t, w)
		got := make(chan error, 1)
		go func() { got <- errOf(l.Lock(t.Context(), "x", distlock.MaxWait(math.MaxInt64))) }()
		time.Sleep(24 * time.Hour)
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
		w := newFlakyStore()
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
	l := lockerOn(t, newFlakyStore())
	opts := append(make([]distlock.Option, 0, 4), distlock.TTL(time.Minute))
	rest := opts[:2]
	mark := distlock.Holder("mine")
	rest[1] = mark
	taken(t, l, "x", opts...)
	h := given(t, l, "y", opts...)
	if _, err := l.Attach(t.Context(), h, opts...); err != nil {
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
