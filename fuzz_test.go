package distlock_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// FuzzName checks that a name is refused with a reason, or is a lock of its own: listings return it
// unchanged, and no other name is the same lock.
func FuzzName(f *testing.F) {
	for name := range badNames {
		if len(name) < 300 {
			f.Add(name, "x")
		}
	}
	for _, pair := range [][2]string{{"a", "a/"}, {"~a", "~~a"}, {"~sem/a", "sem/a"}, {"é", "e\u0301"}, {"a", "A"}, {"{a}", "a"}, {"%41", "A"}} {
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

// FuzzParseHandle checks that an accepted handle attaches to the claim that it names, and that the
// error of a refused one does not show its text.
func FuzzParseHandle(f *testing.F) {
	l, err := distlock.New(mem.New())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close(f.Context()) })
	for _, name := range []string{"x", "~x", "<>&", strings.Repeat("é", 127)} {
		f.Add(given(f, l, name).Secret())
	}
	f.Add("dlh1.")
	f.Add("dlh1.e30")
	f.Add(distlock.Handle{}.Secret())
	f.Fuzz(func(t *testing.T, text string) {
		h, err := distlock.ParseHandle(text)
		if err != nil {
			if invalidWhat(err) != "handle" || len(err.Error()) > 120 {
				t.Errorf("error %v", err)
			}
			if rest := strings.TrimPrefix(text, "dlh1."); len(rest) > 8 && strings.Contains(err.Error(), rest) {
				t.Errorf("the message shows the text: %v", err)
			}
			return
		}
		if h.Name() == "" || h.TTL() < 100*time.Millisecond || h.TTL() > 24*time.Hour || h.Fence() >= 1<<53 {
			t.Errorf("%v with TTL %v", h, h.TTL())
		}
		again, err := distlock.ParseHandle(h.Secret())
		if err != nil || again.Secret() != h.Secret() || again.String() != h.String() {
			t.Errorf("%v was parsed as %v: %v", h, again, err)
		}
		if lease, err := l.Attach(t.Context(), h); err == nil {
			_ = lease.Extend(t.Context(), time.Hour)
			if _, err := lease.Detach(t.Context()); err != nil { // for the next input
				t.Error(err)
			}
		} else if !errors.Is(err, distlock.ErrLost) {
			t.Errorf("attach: %v", err)
		}
	})
}

// FuzzParseProof checks that a proof and a fence have one meaning, and a fence only one form.
func FuzzParseProof(f *testing.F) {
	for _, s := range []string{"1;exclusive;x", "9007199254740991;shared;a%2Fb", "0;counted;x", "01;exclusive;x", "1;exclusive;a+b", "1;exclusive;~lead%2Fx", "1;exclusive;~~x", ";;", "1", "-1", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := distlock.ParseFence(s); err == nil {
			if n == 0 || n >= 1<<53 || s[0] < '1' || s[0] > '9' || len(s) > 16 {
				t.Errorf("%q is %d", s, n)
			}
		} else if n != 0 || invalidWhat(err) != "fence" {
			t.Errorf("%q: %d, %v", s, n, err)
		}
		p, err := distlock.ParseProof(s)
		if err != nil {
			if p != (distlock.Proof{}) || invalidWhat(err) != "proof" || len(err.Error()) > 400 {
				t.Errorf("%q: %+v, %v", s, p, err)
			}
			return
		}
		if p.Fence == 0 || p.Fence >= 1<<53 || strings.TrimSpace(p.Name) == "" || !utf8.ValidString(p.Name) {
			t.Errorf("%q is %+v", s, p)
		}
		if prefix := string(p.Mode) + ";"; !strings.Contains(s, prefix) {
			t.Errorf("%q is of mode %s", s, p.Mode)
		}
	})
}

// FuzzDurations checks that durations are refused with a reason, or are obeyed.
func FuzzDurations(f *testing.F) {
	for _, d := range []int64{-1 << 63, -1, 0, 1, 1e6, 99e6, 1e8, 3e10, 864e11, 864e11 + 1, 1<<63 - 1} {
		f.Add(d, d, d, d)
		f.Add(int64(3e10), int64(1e9), d, int64(1e9))
	}
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
