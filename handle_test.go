package distlock_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// given acquires a lock and returns its handle.
func given(t testing.TB, l *distlock.Locker, name string, opts ...distlock.Option) distlock.Handle {
	t.Helper()
	h, err := taken(t, l, name, opts...).Detach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHandle(t *testing.T) {
	t.Run("takes a lock from one process to another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			from, to := lockerOn(t, w), lockerOn(t, w)
			old := taken(t, from, "x", distlock.TTL(10*time.Second))
			ctx := old.Context(t.Context())
			h, err := old.Detach(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if h.Name() != "x" || h.Fence() != old.Fence() || h.TTL() != 10*time.Second {
				t.Errorf("%s %d %v", h.Name(), h.Fence(), h.TTL())
			}
			wants(t, old.Err(), distlock.ErrReleased)
			wants(t, context.Cause(ctx), distlock.ErrReleased)
			if _, err := old.Detach(t.Context()); !errors.Is(err, distlock.ErrReleased) {
				t.Errorf("a second handle: %v", err)
			}
			time.Sleep(9 * time.Second)
			if _, err := to.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
				t.Fatalf("free on the way: %v", err)
			}

			same, err := distlock.ParseHandle(h.Secret())
			if err != nil {
				t.Fatal(err)
			}
			lease, err := to.Attach(t.Context(), same)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(lease.Until()); left != trustOf(10*time.Second) {
				t.Errorf("%v left: not renewed first", left)
			}
			if lease.Name() != "x" || lease.Fence() != old.Fence() || lease.Mode() != distlock.ModeExclusive {
				t.Errorf("%s %d %s", lease.Name(), lease.Fence(), lease.Mode())
			}
			if err := old.Unlock(t.Context()); err != nil { // a deferred Unlock
				t.Error(err)
			}
			time.Sleep(time.Hour)
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if next := taken(t, from, "x"); next.Fence() <= old.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), old.Fence())
			}
		})
	})
	t.Run("of a reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			a, err := l.RLock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			h, _ := a.Detach(t.Context())
			b, err := l.Attach(t.Context(), h)
			if err != nil || b.Mode() != distlock.ModeShared {
				t.Fatalf("%v %v", b, err)
			}
			if _, err := l.TryRLock(t.Context(), "x"); err != nil {
				t.Errorf("another reader: %v", err)
			}
			if _, err := l.TryLock(t.Context(), "x"); !errors.Is(err, distlock.ErrHeld) {
				t.Errorf("a writer: %v", err)
			}
		})
	})
	t.Run("keeps the effect of Extend and LockDelay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			lease := taken(t, l, "x", distlock.LockDelay(time.Minute))
			if err := lease.Extend(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			h, _ := lease.Detach(t.Context())
			if h.TTL() != time.Hour {
				t.Errorf("TTL %v", h.TTL())
			}
			if _, err := l.Attach(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if claims, _ := w.Store.Show(t.Context(), "x"); len(claims) != 1 || claims[0].Left != 61*time.Minute {
				t.Errorf("the store has %+v", claims)
			}
		})
	})
	t.Run("too late is a loss", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate(), distlock.TTL(10*time.Second))
			h := given(t, l, "x")
			time.Sleep(10 * time.Second)
			_, err := l.Attach(t.Context(), h)
			wantLoss(t, err, distlock.LossTaken)
			taken(t, l, "x")
		})
	})
	t.Run("broken on the way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			h := given(t, l, "x")
			_, _ = driver.Break(t.Context(), w, "x", 0, "enough")
			_, err := l.Attach(t.Context(), h)
			wantLoss(t, err, distlock.LossBroken)
		})
	})
	t.Run("of a lost lease", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lease := taken(t, lockerOn(t, newGate(), distlock.NoRenewal()), "x")
			time.Sleep(time.Minute)
			_, err := lease.Detach(t.Context())
			wantLoss(t, err, distlock.LossExpired)
		})
	})
	t.Run("of a lease whose loss was not reported yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, slow := &tape{}, &slowObserver{kind: distlock.EventRenewed, hold: make(chan struct{})}
			defer slow.release()
			lease := taken(t, lockerOn(t, newGate(), distlock.Observe(p.observe), distlock.Observe(slow.observe)), "x", distlock.MaxHold(time.Hour))
			time.Sleep(time.Hour)
			_, err := lease.Detach(t.Context())
			wantLoss(t, err, distlock.LossMaxHold)
			slow.release()
			synctest.Wait()
			wantStory(t, p, distlock.EventGranted, distlock.EventLost)
			wants(t, lease.Unlock(t.Context()), distlock.ErrMaxHold)
		})
	})
	t.Run("lets waiters continue when it expires", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate(), distlock.TTL(10*time.Second))
			lease := taken(t, l, "x")
			begin := time.Now()
			got := make(chan error, 1)
			go func() { _, err := l.Lock(t.Context(), "x"); got <- err }()
			synctest.Wait()
			if _, err := lease.Detach(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < 10*time.Second || took > 11*time.Second {
				t.Errorf("granted after %v", took)
			}
		})
	})
	t.Run("is valid for one lease at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			h := given(t, l, "x")
			lease, err := l.Attach(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			_ = lease.Extend(t.Context(), time.Hour)
			n := w.count("renew")
			_, err = l.Attach(t.Context(), h)
			wants(t, err, distlock.ErrHeld)
			if w.count("renew") != n { // it would shorten the trust of the first lease
				t.Error("the copy reached the store")
			}
			_ = lease.Unlock(t.Context())
			_, err = l.Attach(t.Context(), h)
			wants(t, err, distlock.ErrLost)
		})
	})
	t.Run("is unlocked and waited for like any lock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			lease, err := l.Attach(t.Context(), given(t, l, "x", distlock.MinHold(time.Hour)))
			if err != nil {
				t.Fatal(err)
			}
			n := w.count("acquire")
			got := make(chan error, 1)
			go func() { got <- errOf(l.Lock(t.Context(), "x")) }()
			synctest.Wait()
			if w.count("acquire") != n {
				t.Error("an attempt for a claim that this process holds")
			}
			if err := lease.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := <-got; err != nil || time.Since(begin) > time.Second {
				t.Errorf("%v after %v: MinHold has ended", err, time.Since(begin))
			}
		})
	})
	t.Run("is not handed off in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockerOn(t, newGate())
			lease, err := l.Attach(t.Context(), given(t, l, "x"))
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan *distlock.Lease, 1)
			go func() { lease, _ := l.Lock(t.Context(), "x"); next <- lease }()
			synctest.Wait()
			_ = lease.Unlock(t.Context())
			if f := (<-next).Fence(); f < lease.Fence()+driver.Span {
				t.Errorf("fence %d after %d: it may have been used before", f, lease.Fence())
			}
		})
	})
}

func TestHandle_errors(t *testing.T) {
	t.Run("a store that keeps no claims", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			h := given(t, lockerOn(t, w), "y")
			w.features = func(f *driver.Features) { f.Detached = false }
			l := lockerOn(t, w)
			lease := taken(t, l, "x")
			_, err := lease.Detach(t.Context())
			wants(t, err, errors.ErrUnsupported)
			_, err = l.Attach(t.Context(), h)
			wants(t, err, errors.ErrUnsupported)
			if err := lease.Err(); err != nil {
				t.Errorf("the lease has changed: %v", err)
			}
		})
	})
	t.Run("a call whose answer is lost can be repeated", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			h := given(t, l, "x")
			w.deafen("renew")
			_, err := l.Attach(t.Context(), h)
			wants(t, err, distlock.ErrUnknown)
			w.mend()
			if _, err := l.Attach(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("an answer that is too late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w, distlock.TTL(time.Second))
			h := given(t, l, "x")
			w.on(nil, func(context.Context, string) error { time.Sleep(950 * time.Millisecond); return nil })
			_, err := l.Attach(t.Context(), h)
			wants(t, err, distlock.ErrUnknown)
		})
	})
	t.Run("a frozen store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			h := given(t, l, "x")
			w.freeze()
			begin := time.Now()
			_, err := l.Attach(t.Context(), h)
			wants(t, err, distlock.ErrUnknown)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			w.mend()
		})
	})
	t.Run("without a call of the store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			h := given(t, l, "x")
			dead, cancel := context.WithCancel(t.Context())
			cancel()
			n := w.count("")
			_, err := l.Attach(dead, h)
			wants(t, err, context.Canceled)
			_, err = l.Attach(noContext, h)
			wants(t, err, distlock.ErrInvalid)
			_, err = l.Attach(t.Context(), distlock.Handle{})
			wantInvalid(t, err, "handle")
			_, err = l.Attach(t.Context(), h, distlock.MaxHold(-1))
			wants(t, err, distlock.ErrInvalid)
			_ = l.Close(t.Context())
			_, err = l.Attach(t.Context(), h)
			wants(t, err, distlock.ErrClosed)
			if w.count("") != n {
				t.Error("the store was called")
			}
		})
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newGate()
			l := lockerOn(t, w)
			h := given(t, l, "x")
			w.on(func(context.Context, string) error { time.Sleep(time.Second); return nil }, nil)
			got := make(chan error, 1)
			go func() { _, err := l.Attach(t.Context(), h); got <- err }()
			synctest.Wait()
			_ = l.Close(t.Context())
			wants(t, <-got, distlock.ErrClosed)
		})
	})
}

// No way to print a handle shows its secret, also inside a value where fmt cannot call its methods.
func TestHandle_isSecret(t *testing.T) {
	w := newGate()
	l := lockerOn(t, w)
	lease := taken(t, l, "x")
	h, err := lease.Detach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	type job struct {
		Shown  distlock.Handle
		hidden distlock.Handle
		deep   []map[string]distlock.Handle
		ptr    *distlock.Handle
	}
	j := job{h, h, []map[string]distlock.Handle{{"a": h}}, &h}
	for _, v := range []any{h, &h, j, &j, []any{h, j}, lease, lease.Context(t.Context())} {
		for _, verb := range strings.Split("v +v #v s q x X d o b t e f c U p T w", " ") {
			fmt.Fprintf(&out, "%"+verb+"\n", v)
		}
		fmt.Fprintln(&out, v)
		text := slog.New(slog.NewTextHandler(&out, nil))
		text.Info("text", "v", v, slog.Any("group", slog.GroupValue(slog.Any("v", v))))
		slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "v", v)
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		} else {
			fmt.Fprintln(&out, err)
		}
	}
	if _, err := json.Marshal(h); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("JSON: %v", err)
	}
	secrets := w.secrets()
	if len(secrets) != 1 {
		t.Fatalf("%d owners", len(secrets))
	}
	want := fmt.Sprintf(`handle of "x" (fence %d, owner %s)`, h.Fence(), driver.Tag(secrets[0]))
	if h.String() != want || fmt.Sprintf("%#v|%d", h, h) != want+"|"+want {
		t.Errorf("%s, want %s", h, want)
	}
	raw := out.String()
	for _, form := range []string{secrets[0], fmt.Sprintf("%x", secrets[0]), fmt.Sprintf("%X", secrets[0]), h.Secret()[5:]} {
		if strings.Contains(raw, form) {
			t.Errorf("the owner is shown: ...%s...", around(raw, form))
		}
	}
	if !strings.Contains(raw, driver.Tag(secrets[0])) {
		t.Error("nothing was printed")
	}
}

func around(s, part string) string {
	at := strings.Index(s, part)
	return s[max(0, at-60):min(len(s), at+60)]
}

func TestHandle_text(t *testing.T) {
	w := newGate()
	l := lockerOn(t, w)
	names := []string{
		"x", "~x", "~sem/x", "~~", "a/b", `"quoted"`, "über", strings.Repeat("<", 255), strings.Repeat("&", 255),
		strings.Repeat(`\`, 255), strings.Repeat("é", 127), "~" + strings.Repeat(">", 254),
	}
	for _, name := range names {
		h := given(t, l, name)
		text := h.Secret()
		if strings.ContainsAny(text, " \n\t\"'/+=") || !strings.HasPrefix(text, "dlh1.") || len(text) > 3000 {
			t.Errorf("the text of %d bytes has characters that need quoting, or is too long: %s", len(text), text[:60])
		}
		for _, s := range []string{text, " " + text + "\n"} {
			parsed, err := distlock.ParseHandle(s)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if parsed.Name() != name || parsed.Fence() != h.Fence() || parsed.TTL() != h.TTL() || parsed.Secret() != text {
				t.Errorf("%q was parsed as %q", name, parsed.Name())
			}
		}
		lease, err := l.Attach(t.Context(), h)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseHandle_errors(t *testing.T) {
	pack := func(s string) string { return "dlh1." + base64.RawURLEncoding.EncodeToString([]byte(s)) }
	const good = `{"k":"x","o":"CANARYCANARYCANARYCANARY00","f":7,"m":"exclusive","t":30000000000}`
	if _, err := distlock.ParseHandle(pack(good)); err != nil {
		t.Fatal(err)
	}
	texts := []string{
		"", " ", "dlh1.", "dlh1", "dlh2." + pack(good)[5:], "DLH1." + pack(good)[5:], pack(good)[5:], "x" + pack(good),
		pack(good) + "=", pack(good) + "!", "dlh1." + strings.Repeat("A", 5000), pack("null"), pack("{}"), pack("[]"), pack("7"), pack(good + good),
		(distlock.Handle{}).Secret(),
	}
	for i := range len(pack(good)) - 1 {
		texts = append(texts, pack(good)[:i])
	}
	for _, change := range [][2]string{
		{`"x"`, `""`}, {`"x"`, `" "`}, {`"x"`, `"a\u0000"`}, {`"x"`, `"~check/x"`}, {`"x"`, `"~other/x"`}, {`"x"`, `7`},
		{`"x"`, `"` + strings.Repeat("x", 256) + `"`},
		{`CANARYCANARYCANARYCANARY00`, ``}, {`CANARYCANARYCANARYCANARY00`, `a\u0000b`}, {`CANARYCANARYCANARYCANARY00`, strings.Repeat("CANARY", 11)},
		{`:7`, `:-7`}, {`:7`, `:9007199254740992`}, {`:7`, `:1e3`}, {`:7`, `:"7"`}, {`:7`, `:7.5`},
		{`exclusive`, ``}, {`exclusive`, `Exclusive`}, {`exclusive`, `both`},
		{`30000000000`, `0`}, {`30000000000`, `-1`}, {`30000000000`, `99999999`}, {`30000000000`, `86400000000001`},
		{`"t"`, `"d":-1,"t"`}, {`"t"`, `"d":86400000000001,"t"`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Fatalf("%q changes nothing", change)
		}
		texts = append(texts, pack(text))
	}
	for _, text := range texts {
		h, err := distlock.ParseHandle(text)
		wantInvalid(t, err, "handle")
		if h != (distlock.Handle{}) {
			t.Error("a handle with an error")
		}
		if msg := err.Error(); strings.Contains(msg, "CANARY") || strings.Contains(msg, base64.RawURLEncoding.EncodeToString([]byte("CANARYCANARY"))[:8]) ||
			strings.Contains(msg, "eyJ") || len(msg) > 120 {
			t.Errorf("the message shows the text: %s", msg)
		}
	}
}

func TestHandle_zero(t *testing.T) {
	var h distlock.Handle
	if h.Name() != "" || h.Fence() != 0 || h.TTL() != 0 || fmt.Sprint(h) != "no handle" {
		t.Errorf("%v", h)
	}
	if _, err := distlock.ParseHandle(h.Secret()); invalidWhat(err) != "handle" {
		t.Error(err)
	}
}

func TestProof(t *testing.T) {
	w := newGate()
	l := lockerOn(t, w)
	for _, name := range []string{"x", "a b", "a;b", "a+b", "a%20b", "über/alles?", "~lead/x", "~x", `"`, strings.Repeat("é", 127)} {
		lease := taken(t, l, name)
		proof := lease.Proof()
		if strings.ContainsAny(proof, " \n\"") {
			t.Errorf("the proof has characters that need quoting: %s", proof)
		}
		got, err := distlock.ParseProof(proof)
		if err != nil {
			t.Fatal(err)
		}
		if got != (distlock.Proof{Kind: distlock.KindLock, Name: name, Mode: distlock.ModeExclusive, Fence: lease.Fence()}) {
			t.Errorf("%+v", got)
		}
	}
	r, _ := l.TryRLock(t.Context(), "r")
	if got, err := distlock.ParseProof(r.Proof()); err != nil || got.Mode != distlock.ModeShared {
		t.Errorf("%+v %v", got, err)
	}
}

// A proof has the kind of its lock: a guard does not take the fence of an election for that of the
// lock of the same name.
func TestProof_kinds(t *testing.T) {
	l := lockerOn(t, newGate())
	seen := map[string]distlock.Kind{}
	each(t, l, "x", func(kind distlock.Kind, lease *distlock.Lease) {
		p, err := distlock.ParseProof(lease.Proof())
		if err != nil || p.Kind != kind || p.Name != "x" || p.Fence != lease.Fence() {
			t.Errorf("a proof of %s: %+v, %v", kind, p, err)
		}
		_, of, _ := strings.Cut(lease.Proof(), ";")
		if other, ok := seen[of]; ok {
			t.Errorf("the proofs of %s and %s name the same lock: %s", kind, other, of)
		}
		seen[of] = kind
	})
	if lock := "exclusive;x"; seen[lock] != distlock.KindLock {
		t.Errorf("the proof of a plain lock is not %s", lock)
	}
}

func TestProof_withoutFence(t *testing.T) {
	w := newGate()
	w.features = func(f *driver.Features) { f.Fence, f.Floor = false, false }
	w.Store = newGate().Store
	bare := struct{ driver.Store }{&noFence{w}}
	lease := taken(t, lockerOn(t, bare), "x")
	if lease.Fence() != 0 {
		t.Fatalf("fence %d", lease.Fence())
	}
	_, err := distlock.ParseProof(lease.Proof())
	wantInvalid(t, err, "proof")
}

// noFence is a store without fences.
type noFence struct{ *gate }

func (s *noFence) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := s.gate.Acquire(ctx, r)
	res.Fence = 0
	return res, err
}

func TestParseProof_errors(t *testing.T) {
	for _, s := range []string{
		"", ";", ";;", "1", "1;exclusive", "0;exclusive;x", "01;exclusive;x", "1;;x", "1;Exclusive;x", "1;exclusive;", "1;exclusive;%", "1;exclusive;%zz",
		"1;exclusive;%00", "1;exclusive;%0A", "1;exclusive;x;y", "1;exclusive;~x", "1;exclusive;~lead%2F", "1;exclusive;~check%2Fx", "1 ;exclusive;x", "1;exclusive; ", "1;exclusive;%ff", strings.Repeat(";", 1000),
		"1;exclusive;" + strings.Repeat("x", 256),
	} {
		p, err := distlock.ParseProof(s)
		wantInvalid(t, err, "proof")
		if p != (distlock.Proof{}) {
			t.Errorf("%q: %+v with an error", s, p)
		}
		if len(err.Error()) > 200 {
			t.Errorf("%d bytes of message", len(err.Error()))
		}
	}
}

func TestParseFence(t *testing.T) {
	for s, want := range map[string]uint64{"1": 1, "9": 9, "10": 10, "1789000000000000": 1789000000000000, "9007199254740991": 1<<53 - 1} {
		if got, err := distlock.ParseFence(s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", " ", "-1", "0", "+1", "01", "1e3", "1.0", "0x1", "1_000", " 1", "1 ", "1\n", "١", "９", "9007199254740992", "9223372036854775808",
		"18446744073709551615", "18446744073709551616", strings.Repeat("9", 1000), "NaN", "null",
	} {
		got, err := distlock.ParseFence(s)
		wantInvalid(t, err, "fence")
		if got != 0 || len(err.Error()) > 150 {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
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
	for _, text := range []string{
		"dlh1.", "dlh1.e30", distlock.Handle{}.Secret(),
		"dlh1.eyJrIjoiYCIsIm8iOiJ0X8009yIsIm0iOiJleGNsdXNpdmUiLCJ0Ijo0MzA0MzA0MzA0CX0",
		"0",
		"dlh1.eyJrIjoift10Iiwi000iOjY0fX",
		"dlh1.eyJrIjoiw77Cq8O0w77Cq8O0w77Cq8O0w77Cq8O0w77Cq8O0w77Cq8O0w77Cq8O0w77Cq8O0w77Cq8O0w77Cq" +
			"8O0w77Cq72008200720077C0820077C0820077C0820077C0820077C08200000002007200720077C0820077C082" +
			"0077C0820077C0820077Cq820077Cq820077Cq820077Cq820077Cq820077Cq820077Cq820077Cq820077Cq8200" +
			"77Cq820077Cq820077Cq820077Cq820077Cq820077Cq820077Cq820077Cq820070iLCAiYCI6MCB9",
	} {
		f.Add(text)
	}
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
	for _, s := range []string{"1;exclusive;x", "9007199254740991;shared;a%2Fb", "0;counted;x", "01;exclusive;x", "1;exclusive;a+b", "1;exclusive;~lead%2Fx", "1;exclusive;~~x", ";;", "1", "-1", "1e3",
		"1;shared;", "1;shared;%00%00", "1;;", "1;shared;++",
		"1;shared;" + strings.Repeat("0", 256), "1;shared;" + strings.Repeat("0", 76) + "\xff" + strings.Repeat("0", 13)} {
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
