package distlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := distlock.Log(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	page, err := os.ReadFile("docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{} // the warnings of the page, and whether there is such a line
	for _, row := range regexp.MustCompile("(?m)^\\| `(distlock: [a-z_ ]+)`").FindAllStringSubmatch(string(page), -1) {
		rows[row[1]] = false
	}
	base := distlock.Event{Kind: distlock.KindElection, Name: "x", Mode: distlock.ModeExclusive, Store: "mem", Holder: "me"}
	for _, c := range []struct {
		e    distlock.Event
		want string
	}{
		{distlock.Event{Type: distlock.EventAttempted, Took: time.Millisecond, Err: errCut}, `level=DEBUG msg="distlock: attempted" %s took=1ms error="connection cut"`},
		{distlock.Event{Type: distlock.EventWaiting}, `level=DEBUG msg="distlock: waiting" %s`},
		{
			distlock.Event{Type: distlock.EventGranted, Fence: 7, Took: time.Second, Wait: time.Millisecond, Left: 29 * time.Second, Handed: true, Behind: 3},
			`level=DEBUG msg="distlock: granted" %s fence=7 took=1s wait=1ms left=29s behind=3 handed=true`,
		},
		{
			distlock.Event{Type: distlock.EventRefused, Err: errors.Join(&distlock.HeldError{Name: "x", Holder: "you"}, distlock.ErrReleased)},
			`level=DEBUG msg="distlock: refused" %s error="distlock: \"x\" is held by you\ndistlock: lease released"`,
		},
		{
			distlock.Event{Type: distlock.EventRefused, Err: &distlock.DeadlockError{Name: "x", Cycle: []distlock.Task{{Holder: "me", Waits: distlock.Claim{Name: "x"}, Holds: []distlock.Claim{{Name: "x"}}}}}},
			`level=WARN msg="distlock: refused" %s error="distlock: deadlock: me holds \"x\" and waits for \"x\": it waits for itself"`,
		},
		{distlock.Event{Type: distlock.EventRenewed, Fence: 7}, `level=DEBUG msg="distlock: renewed" %s fence=7`},
		{
			distlock.Event{Type: distlock.EventRenewed, Fence: 7, Left: 7 * time.Second, Margin: 7 * time.Second, Thin: true},
			`level=WARN msg="distlock: renewed late" %s fence=7 left=7s`,
		},
		{distlock.Event{Type: distlock.EventAtRisk, Fence: 7, Left: time.Second, Err: errCut}, `level=WARN msg="distlock: at_risk" %s fence=7 left=1s error="connection cut"`},
		{distlock.Event{Type: distlock.EventRecovered, Fence: 7}, `level=DEBUG msg="distlock: recovered" %s fence=7`},
		{
			distlock.Event{Type: distlock.EventLost, Fence: 7, Err: &distlock.LostError{Name: "x", Reason: distlock.LossExpired}},
			`level=WARN msg="distlock: lost" %s fence=7 error="distlock: lease of \"x\" lost: not renewed in time"`,
		},
		{distlock.Event{Type: distlock.EventReleased, Fence: 7, Took: time.Minute}, `level=DEBUG msg="distlock: released" %s fence=7 took=1m0s`},
		{distlock.Event{Type: distlock.EventReleased, Fence: 7, Err: errCut}, `level=WARN msg="distlock: released" %s fence=7 error="connection cut"`},
		{distlock.Event{Type: distlock.EventHandedOff, Fence: 7}, `level=DEBUG msg="distlock: handed_off" %s fence=7`},
		{distlock.Event{Type: distlock.EventDetached, Fence: 7}, `level=DEBUG msg="distlock: detached" %s fence=7`},
		{distlock.Event{Type: distlock.EventWithdrawn}, `level=DEBUG msg="distlock: withdrawn" %s`},
	} {
		c.e.Kind, c.e.Name, c.e.Mode, c.e.Store, c.e.Holder = base.Kind, base.Name, base.Mode, base.Store, base.Holder
		out.Reset()
		log(t.Context(), c.e)
		want := fmt.Sprintf(c.want, "name=x kind=lead mode=exclusive store=mem") + "\n"
		if got := out.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if msg, ok := strings.CutPrefix(c.want, `level=WARN msg="`); ok {
			msg, _, _ = strings.Cut(msg, `"`)
			if _, ok := rows[msg]; !ok {
				t.Errorf("docs/observability.md has no row for the warning %q", msg)
			}
			rows[msg] = true
		}
	}
	for msg, ok := range rows {
		if !ok {
			t.Errorf("docs/observability.md has a row for %q, which is no warning", msg)
		}
	}
}

func TestLog_level(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.Observe(distlock.Log(slog.New(slog.NewTextHandler(&out, nil)))))
		_ = taken(t, l, "x").Unlock(t.Context())
		if out.Len() > 0 {
			t.Errorf("a success is logged at the default level: %s", out.String())
		}
		lease := taken(t, l, "x")
		w.cut()
		<-lease.Done()
		synctest.Wait()
	})
	if n := strings.Count(out.String(), "level=WARN"); n != 2 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("want a risk and a loss, got %s", out.String())
	}
}

// A store that answers late: the last attempt before the loss succeeds.
func TestLog_late(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		l := lockerOn(t, w, distlock.Observe(distlock.Log(slog.New(slog.NewTextHandler(&out, nil)))))
		lease := taken(t, l, "x")
		w.cut()
		time.Sleep(25 * time.Second)
		w.mend()
		time.Sleep(time.Minute)
		if err := lease.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if s := out.String(); strings.Count(s, "\n") != 2 || !strings.Contains(s, `level=WARN msg="distlock: at_risk"`) || !strings.Contains(s, `level=WARN msg="distlock: renewed late"`) {
		t.Errorf("want a risk and a late renewal, got %s", s)
	}
}

// No line of a long log contains an owner.
func TestLog_showsNoOwner(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := newGate()
		logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		l := lockerOn(t, w, distlock.Observe(distlock.Log(logger)))
		lease := taken(t, l, "x")
		_, err := l.TryLock(t.Context(), "x")
		logger.Error("refused", "err", err)
		_, err = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
		logger.Error("waited", "err", err)
		w.deafen("release")
		logger.Error("unlock", "err", lease.Unlock(t.Context()))
		w.mend()
		for range 2 {
			h, err := taken(t, l, "y").Detach(t.Context())
			logger.Info("handle", "handle", h, "err", err)
			lease, err := l.Attach(t.Context(), h)
			logger.Info("lease", "lease", lease, "err", err)
			w.cut()
			<-lease.Done()
			logger.Error("lost", "err", lease.Err(), "unlock", lease.Unlock(t.Context()))
			w.mend()
			time.Sleep(time.Minute)
			_, err = l.Attach(t.Context(), h)
			logger.Error("attach", "err", err)
		}
		why, _ := l.Status(t.Context(), distlock.KindLock, "x")
		logger.Info("why", "why", why, "text", why.String(), "all", fmt.Sprintf("%+v", why))
		synctest.Wait()
		if len(w.secrets()) < 4 {
			t.Fatalf("%d owners", len(w.secrets()))
		}
		for _, owner := range w.secrets() {
			if strings.Contains(out.String(), owner) {
				t.Errorf("the owner is in the log: %s", around(out.String(), owner))
			}
		}
		if n := strings.Count(out.String(), "\n"); n < 30 {
			t.Errorf("only %d lines", n)
		}
	})
}

func TestLog_nil(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	distlock.Log(nil)(context.Background(), distlock.Event{Type: distlock.EventLost, Name: "x"})
	if !strings.Contains(out.String(), "distlock: lost") {
		t.Errorf("%q", out.String())
	}
}
