package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// put writes a claim of any kind into a store.
func put(t testing.TB, s driver.Store, key string, weight, limit int64) {
	t.Helper()
	res, err := s.Acquire(t.Context(), driver.Request{
		ID: driver.ID{Key: key, Owner: key + "'s owner"}, Weight: weight, Limit: limit, TTL: time.Hour, Holder: "somebody",
	})
	if err != nil || !res.Granted {
		t.Fatal(res, err)
	}
}

// listed returns the kind and name of each claim that List yields.
func listed(t testing.TB, l *distlock.Locker, prefix string) []string {
	t.Helper()
	out := []string{}
	for c, err := range l.List(t.Context(), distlock.KindAny, prefix) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(c.Kind)+":"+c.Name)
	}
	slices.Sort(out)
	return out
}

func TestClaims(t *testing.T) {
	s := mem.New()
	l := lockerOn(t, s)
	for _, name := range []string{"a", "ab", "b", "~a", "~sem/a", "sem/a"} {
		taken(t, l, name)
	}
	for _, key := range []string{"~sem/a", "~sem/ab", "~rate/a", "~once/a", "~lead/a", "~check/a", "~wait/a"} {
		put(t, s, key, 1, 5)
	}
	for prefix, want := range map[string][]string{
		"": {
			"lead:a", "lock:a", "lock:ab", "lock:b", "lock:sem/a", "lock:~a", "lock:~sem/a", "once:a", "rate:a", "sem:a", "sem:ab"},
		"a":      {"lead:a", "lock:a", "lock:ab", "once:a", "rate:a", "sem:a", "sem:ab"},
		"ab":     {"lock:ab", "sem:ab"},
		"abc":    {},
		"~":      {"lock:~a", "lock:~sem/a"},
		"~a":     {"lock:~a"},
		"~sem/":  {"lock:~sem/a"},
		"sem/":   {"lock:sem/a"},
		"~check": {},
	} {
		if got := listed(t, l, prefix); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
}

func TestClaims_facts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.Holder("me"))
		lease := taken(t, l, "x", distlock.Note("nightly"), distlock.Meta("host", "db7"), distlock.Value([]byte{1, 2}), distlock.TTL(time.Minute))
		other := lockerOn(t, w, distlock.Holder("you"))
		go func() { _, _ = other.Lock(t.Context(), "x", distlock.Note("soon")) }()
		synctest.Wait()
		time.Sleep(5 * time.Second)
		var got []distlock.Claim
		for c, err := range l.List(t.Context(), distlock.KindAny, "x") {
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(w.secrets(), c.Owner) || c.Owner == "" {
				t.Error("the owner is shown")
			}
			got = append(got, c)
		}
		if len(got) != 2 {
			t.Fatalf("%+v", got)
		}
		a, b := got[0], got[1]
		if a.Name != "x" || a.Holder != "me" || a.Note != "nightly" || len(a.Meta) != 1 || a.Meta["host"] != "db7" || string(a.Value) != "\x01\x02" ||
			a.Fence != lease.Fence() || a.Mode != distlock.ModeExclusive || a.Held != 5*time.Second || a.Left != 55*time.Second || a.Waiting || a.Kept {
			t.Errorf("%+v", a)
		}
		if b.Holder != "you" || b.Note != "soon" || b.Fence != 0 || !b.Waiting || b.Held != 5*time.Second {
			t.Errorf("%+v", b)
		}
		why, err := l.Status(t.Context(), distlock.KindLock, "x")
		if err != nil || len(why.Holders) != 1 || len(why.Waiters) != 1 || why.Holders[0].Note != "nightly" || why.Waiters[0].Note != "soon" || why.Name != "x" {
			t.Errorf("%+v %v", why, err)
		}
		if got, want := why.String(), fmt.Sprintf(`"x" is held by me for 5s (fence %d); 1 in the queue`, lease.Fence()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestClaims_modes(t *testing.T) {
	s := mem.New()
	l := lockerOn(t, s)
	put(t, s, "w", driver.Whole, driver.Whole)
	put(t, s, "r", 1, driver.Whole)
	put(t, s, "~sem/c", 2, 5)
	for c, err := range l.List(t.Context(), distlock.KindAny, "") {
		want := map[string]distlock.Mode{"w": distlock.ModeExclusive, "r": distlock.ModeShared, "c": distlock.ModeCounted}[c.Name]
		if err != nil || c.Mode != want {
			t.Errorf("%s is %s", c.Name, c.Mode)
		}
		if c.Name == "c" && (c.Weight != 2 || c.Limit != 5) {
			t.Errorf("%+v", c)
		}
	}
}

func TestClaims_break(t *testing.T) {
	l := lockerOn(t, mem.New())
	for i := range 10 {
		taken(t, l, fmt.Sprint("x", i))
	}
	n := 0
	for range l.List(t.Context(), distlock.KindAny, "x") {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d claims", n)
	}
	for range l.List(t.Context(), distlock.KindAny, "") {
		break
	}
}

// lister is a store whose list ends with an error.
type lister struct {
	driver.Store
	err error
}

func (s lister) List(_ context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		if yield(driver.Claim{Key: prefix + "a", Weight: 1, Limit: 1}, nil) {
			yield(driver.Claim{}, s.err)
		}
	}
}

func TestClaims_errors(t *testing.T) {
	t.Run("a store without Show and List", func(t *testing.T) {
		l := lockerOn(t, struct{ driver.Store }{mem.New()})
		_, err := l.Status(t.Context(), distlock.KindLock, "x")
		wants(t, err, errors.ErrUnsupported)
		n := 0
		for _, err := range l.List(t.Context(), distlock.KindAny, "") {
			n++
			wants(t, err, errors.ErrUnsupported)
			if errors.Is(err, distlock.ErrUnavailable) || errors.Is(err, distlock.ErrUnknown) {
				t.Errorf("%v looks temporary", err)
			}
		}
		if n != 1 {
			t.Errorf("%d errors", n)
		}
	})
	t.Run("reading changes nothing", func(t *testing.T) {
		l := lockerOn(t, lister{mem.New(), errCut})
		var claims, errs int
		for _, err := range l.List(t.Context(), distlock.KindAny, "") {
			if err == nil {
				claims++
				continue
			}
			errs++
			wants(t, err, errCut, distlock.ErrUnavailable)
			if errors.Is(err, distlock.ErrUnknown) {
				t.Error("reading has no unknown outcome")
			}
			if err.Error() != "distlock: list: connection cut" {
				t.Error(err)
			}
		}
		if claims != 1 || errs != 1 {
			t.Errorf("%d claims, %d errors", claims, errs)
		}
		w := newGate()
		l = lockerOn(t, w)
		w.cut()
		_, err := l.Status(t.Context(), distlock.KindLock, "x")
		wants(t, err, errCut, distlock.ErrUnavailable)
		if errors.Is(err, distlock.ErrUnknown) || err.Error() != `distlock: show "x": connection cut` {
			t.Error(err)
		}
		w.mend()
	})
	t.Run("closed", func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w)
		_ = l.Close(t.Context())
		_, err := l.Status(t.Context(), distlock.KindLock, "x")
		wants(t, err, distlock.ErrClosed)
		for _, err := range l.List(t.Context(), distlock.KindAny, "") {
			wants(t, err, distlock.ErrClosed)
		}
		if n := w.count(""); n != 0 {
			t.Errorf("the store was called %d times", n)
		}
	})
}

func TestStatus_String(t *testing.T) {
	c := distlock.Claim{Holder: "me", Held: 90 * time.Second, Fence: 7}
	for want, r := range map[string]distlock.Status{
		`"x" is free`: {Kind: distlock.KindLock, Name: "x"},
		`"x" is held by me for 1m30s (fence 7); 0 in the queue`:                                 {Kind: distlock.KindLock, Name: "x", Holders: []distlock.Claim{c}},
		`"x" is held by me for 1m30s (fence 7), held by me for 1m30s (fence 7); 2 in the queue`: {Kind: distlock.KindLock, Name: "x", Holders: []distlock.Claim{c, c}, Waiters: make([]distlock.Claim, 2)},
		`"x" is held by nobody; 1 in the queue`:                                                 {Kind: distlock.KindLock, Name: "x", Waiters: []distlock.Claim{c}},
		`"x" is kept by me for 1ms; 0 in the queue`:                                             {Kind: distlock.KindLock, Name: "x", Holders: []distlock.Claim{{Holder: "me", Held: time.Millisecond, Kept: true}}},
		`"a\nb" is held by "\x1b[2J" for 0s (fence 7); 0 in the queue`:                          {Kind: distlock.KindLock, Name: "a\nb", Holders: []distlock.Claim{{Holder: "\x1b[2J", Fence: 7}}},
		`"x" is held by another client, no expiry; 0 in the queue`:                              {Kind: distlock.KindLock, Name: "x", Holders: []distlock.Claim{{Holder: "another client"}}},
		`"x" is held by another client; 0 in the queue`:                                         {Kind: distlock.KindLock, Name: "x", Holders: []distlock.Claim{{Holder: "another client", Left: time.Second}}},
		`"` + strings.Repeat("x", 64) + `"... is free`:                                          {Kind: distlock.KindLock, Name: strings.Repeat("x", 99)},
	} {
		if got := r.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := (distlock.Claim{Holder: "me", Waiting: true, Held: time.Second}).String(); got != "waited for by me for 1s" {
		t.Error(got)
	}
}

func TestWhy_free(t *testing.T) {
	l := lockerOn(t, mem.New())
	why, err := l.Status(t.Context(), distlock.KindLock, "~x")
	if err != nil || why.Name != "~x" || len(why.Holders)+len(why.Waiters) != 0 {
		t.Errorf("%+v %v", why, err)
	}
}

// Why looks up a name in the kind that the caller uses, and WhyAll in all kinds.
func TestLocker_Status_kinds(t *testing.T) {
	s := mem.New()
	l := lockerOn(t, s)
	for _, key := range []string{"x", "~sem/x", "~rate/x", "~once/x", "~lead/x", "~sem/y", "~~sem/x"} {
		put(t, s, key, 1, 5)
	}
	kinds := []distlock.Kind{
		distlock.KindLock, distlock.KindSemaphore, distlock.KindRateLimit, distlock.KindOnce, distlock.KindElection,
	}
	for _, kind := range kinds {
		r, err := l.Status(t.Context(), kind, "x")
		if err != nil || r.Kind != kind || r.Name != "x" || len(r.Holders) != 1 || r.Holders[0].Kind != kind {
			t.Errorf("%q: %+v %v", kind, r, err)
		}
		n := 0
		for c, err := range l.List(t.Context(), kind, "x") {
			if n++; err != nil || c.Kind != kind || c.Name != "x" {
				t.Errorf("%q: %+v %v", kind, c, err)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d are listed", kind, n)
		}
	}
	all, err := l.Status(t.Context(), distlock.KindAny, "x")
	var got []distlock.Kind
	for _, one := range all.ByKind() {
		got = append(got, one.Kind)
	}
	if err != nil || !slices.Equal(got, kinds) || len(all.Holders) != len(kinds) || strings.Count(all.String(), "\n") != len(kinds)-1 {
		t.Errorf("all of x: %q %v\n%v", got, err, all)
	}
	if all, err := l.Status(t.Context(), distlock.KindAny, "y"); err != nil || len(all.ByKind()) != 1 || all.ByKind()[0].Kind != distlock.KindSemaphore {
		t.Errorf("all of y: %v %v", all, err)
	}
	if all, err := l.Status(t.Context(), distlock.KindAny, "z"); err != nil || !all.Free() || all.String() != `"z" is free` {
		t.Errorf("all of z: %v %v", all, err)
	}
	_, err = l.Status(t.Context(), distlock.KindAny, "")
	wantInvalid(t, err, "name")
	_, err = l.Status(t.Context(), "mutex", "x")
	wants(t, err, distlock.ErrInvalid)
	for _, err := range l.List(t.Context(), "mutex", "") {
		wants(t, err, distlock.ErrInvalid)
	}
}

func TestLocker_Break(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := t.Context(), g.locker(t)
		first := must(t)(l.Lock(ctx, "x"))
		status, err := l.Status(ctx, distlock.KindLock, "x")
		if err != nil || len(status.Holders) != 1 {
			t.Fatal(status, err)
		}
		seen := status.Holders[0].Fence
		free(t, first)
		second := must(t)(l.Lock(ctx, "x"))
		if ended, err := l.Break(ctx, distlock.KindLock, "x", seen, "late"); err != nil || len(ended) != 0 {
			t.Errorf("Break up to the fence before: %v, %v", ended, err)
		}
		if ended, err := l.Break(ctx, distlock.KindSemaphore, "x", distlock.AllFences, "another kind"); err != nil || len(ended) != 0 {
			t.Errorf("Break of another kind: %v, %v", ended, err)
		}
		if err := second.Extend(ctx, time.Minute); err != nil {
			t.Errorf("the lease that was not meant: %v", err)
		}
		ended, err := l.Break(ctx, distlock.KindLock, "x", second.Fence(), "maintenance")
		if err != nil || len(ended) != 1 || ended[0].Name != "x" || ended[0].Kind != distlock.KindLock {
			t.Errorf("Break: %+v, %v", ended, err)
		}
		var broken *driver.BrokenError
		if err := second.Extend(ctx, time.Minute); !errors.Is(err, distlock.ErrLost) || !errors.As(err, &broken) || broken.Reason != "maintenance" {
			t.Errorf("the lease that was broken: %v", err)
		}
		third := must(t)(l.Lock(ctx, "x"))
		_, err = l.Break(ctx, distlock.KindLock, "x", (*distlock.Lease)(nil).Fence(), "no lease")
		wantInvalid(t, err, "fence")
		if err := third.Extend(ctx, time.Minute); err != nil {
			t.Errorf("the lease after a Break without a fence: %v", err)
		}
		if ended, err := l.Break(ctx, distlock.KindLock, "x", distlock.AllFences, "all"); err != nil || len(ended) != 1 {
			t.Errorf("Break of all: %v, %v", ended, err)
		}
		wants(t, third.Extend(ctx, time.Minute), distlock.ErrLost)
		_, err = l.Break(ctx, distlock.KindAny, "x", 1, "")
		wantInvalid(t, err, "kind")
		_, err = l.Break(ctx, "mutex", "x", 1, "")
		wantInvalid(t, err, "kind")
		_, err = l.Break(ctx, distlock.KindLock, "", 1, "")
		wantInvalid(t, err, "name")
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		_, err = l.Break(ctx, distlock.KindLock, "x", 1, "")
		wants(t, err, distlock.ErrClosed)
	})
}

func TestStatus_String_many(t *testing.T) {
	r := distlock.Status{Name: "gpu", Kind: "sem"}
	for range 5 {
		r.Holders = append(r.Holders, distlock.Claim{Holder: "me", Held: time.Second})
	}
	if got, want := r.String(), `semaphore "gpu" is held by me for 1s, held by me for 1s, held by me for 1s, and by 2 others; 0 in the queue`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (distlock.Status{Name: "api", Kind: "rate"}).String(), `rate limit "api" is free`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
