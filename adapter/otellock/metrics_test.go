package otellock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/locktest"
)

// must returns the lease, and fails the test if there is an error.
func must(t testing.TB) func(*distlock.Lease, error) *distlock.Lease {
	return func(lease *distlock.Lease, err error) *distlock.Lease {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
}

// TestMetrics_outcomes checks the metrics of every way in which a call and a lease can end.
func TestMetrics_outcomes(t *testing.T) {
	const ok = "distlock.acquire.duration mode=exclusive outcome=granted store=locktest"
	ended := func(end string) string { return "distlock.hold.duration end=" + end + " mode=exclusive store=locktest" }
	answered := func(outcome string) string {
		return "distlock.acquire.duration mode=exclusive outcome=" + outcome + " store=locktest"
	}
	renewed := func(outcome string) string { return "distlock.renew.duration outcome=" + outcome + " store=locktest" }
	lost := func(reason string) string { return "distlock.lost reason=" + reason + " store=locktest" }
	failed := func(op, kind string) string {
		return "distlock.store.errors kind=" + kind + " op=" + op + " store=locktest"
	}
	const margin = "distlock.lease.margin store=locktest"
	boom := errors.New("no more")

	for name, c := range map[string]struct {
		play func(t *testing.T, s *locktest.Store, l *distlock.Locker)
		want []string
	}{
		"released": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			_ = must(t)(l.Lock(t.Context(), "x")).Unlock(t.Context())
		}, []string{ok, ended("released")}},
		"held": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			must(t)(l.Lock(t.Context(), "x"))
		}, []string{ok, "distlock.leases mode=exclusive store=locktest"}},
		"renewed": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			time.Sleep(time.Minute)
			_ = lease.Unlock(t.Context())
		}, []string{ok, renewed("ok"), margin, ended("released")}},
		"passed on": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			_, _ = must(t)(l.Lock(t.Context(), "x")).Detach(t.Context())
		}, []string{ok}},
		"busy": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			_, _ = l.TryLock(t.Context(), "x")
		}, []string{answered("busy")}},
		"timeout by MaxWait": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			_, _ = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
		}, []string{answered("timeout")}},
		"timeout by the context": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, boom)
			defer cancel()
			_, _ = l.Lock(ctx, "x")
		}, []string{answered("timeout")}},
		"too late for an attempt": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			ctx, cancel := context.WithTimeout(t.Context(), -1)
			defer cancel()
			_, _ = l.Lock(ctx, "x")
		}, []string{answered("timeout")}},
		"cancelled": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(boom) })
			_, _ = l.Lock(ctx, "x")
		}, []string{answered("cancelled")}},
		"cancelled in an attempt": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Delay(100 * time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, _ = l.Lock(ctx, "x")
			s.Delay(0)
		}, []string{answered("cancelled")}},
		"closed": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			time.AfterFunc(time.Minute, func() { _ = l.Close(context.Background()) })
			_, _ = l.Lock(t.Context(), "x")
		}, []string{answered("cancelled")}},
		"unavailable": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Unavailable(1)
			_, _ = l.Lock(t.Context(), "x")
		}, []string{answered("error"), failed("acquire", "unavailable")}},
		"unavailable for the whole wait": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			time.AfterFunc(time.Second, s.Down)
			_, _ = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
			s.Up()
		}, []string{answered("timeout"), failed("acquire", "unavailable"), failed("withdraw", "unavailable")}}, // the last reply was "held"
		"a reply lost": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.LoseReplies(1, locktest.Acquire)
			_ = must(t)(l.Lock(t.Context(), "x")).Unlock(t.Context())
		}, []string{ok, ended("released"), failed("acquire", "unknown")}},
		"no reply": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Cut()
			_, _ = l.Lock(t.Context(), "x")
			s.Heal()
		}, []string{answered("error"), failed("acquire", "timeout"), failed("withdraw", "timeout")}},
		"a release lost": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			s.LoseRequests(1000, locktest.Release) // the release is repeated for 5 s
			_, _ = lease.Unlock(t.Context()), lease.Unlock(t.Context())
		}, []string{ok, ended("released"), failed("release", "unknown")}},
		"the store is down": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			s.Down()
			<-lease.Done()
			s.Up()
		}, []string{ok, ended("expired"), lost("store"), renewed("error"), failed("renew", "unavailable")}},
		"longest hold": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			<-must(t)(l.Lock(t.Context(), "x", distlock.MaxHold(time.Second))).Done()
		}, []string{ok, ended("expired"), lost("expired")}},
		"not renewed": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			<-must(t)(l.Lock(t.Context(), "x", distlock.NoRenewal())).Done()
		}, []string{ok, ended("expired"), lost("expired")}},
		"taken": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			s.Steal("x")
			<-lease.Done()
		}, []string{ok, ended("lost"), lost("taken"), renewed("lost")}},
		"broken": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			_, _ = s.Break(t.Context(), "x", 0, "enough")
			<-lease.Done()
		}, []string{ok, ended("broken"), lost("broken"), renewed("lost")}},
		"lost, found by Unlock": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			s.Steal("x")
			_ = lease.Unlock(t.Context())
		}, []string{ok, ended("lost"), lost("taken")}},
		"other modes": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			must(t)(l.RLock(t.Context(), "x"))
			sem, _ := l.Semaphore(2)
			must(t)(sem.Acquire(t.Context(), "x"))
		}, []string{
			"distlock.acquire.duration mode=shared outcome=granted store=locktest", "distlock.leases mode=shared store=locktest",
			"distlock.acquire.duration mode=counted outcome=granted store=locktest", "distlock.leases mode=counted store=locktest",
		}},
		"a pass": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			for _, n := range []int64{1, 5000} { // by a claim, and by a share
				m, err := l.Limiter(n, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				_ = m.Allow(t.Context(), fmt.Sprint(n), distlock.Weight(n))
				_ = m.Allow(t.Context(), fmt.Sprint(n), distlock.Weight(n))
			}
		}, []string{
			"distlock.acquire.duration mode=counted outcome=granted store=locktest", "distlock.acquire.duration mode=counted outcome=busy store=locktest",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := newProbe(t, nil), locktest.New(t)
				c.play(t, s, p.locker(s))
				synctest.Wait()
				p.want(c.want...)
			})
		})
	}
}

func TestMetrics_figures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newProbe(t, nil), locktest.New(t)
		l := p.locker(s)
		rival := s.Hold("x", "you")
		done := make(chan struct{})
		go func() {
			defer close(done)
			lease := must(t)(l.Lock(t.Context(), "x"))
			time.Sleep(90 * time.Second)
			_ = lease.Unlock(t.Context())
		}()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := p.points()["distlock.waiters mode=exclusive store=locktest"].sum; n != 1 {
			t.Errorf("%v waiters", n)
		}
		rival.Release()
		<-done
		synctest.Wait()
		got := p.points()
		if a := got["distlock.acquire.duration mode=exclusive outcome=granted store=locktest"]; a != (point{1, 20}) {
			t.Errorf("acquire %+v", a)
		}
		if h := got["distlock.hold.duration end=released mode=exclusive store=locktest"]; h != (point{1, 90}) {
			t.Errorf("hold %+v", h)
		}
		r, m := got["distlock.renew.duration outcome=ok store=locktest"], got["distlock.lease.margin store=locktest"]
		if r.count < 8 || m.count != r.count || m.sum/float64(m.count) < 18 || m.sum/float64(m.count) > 20 {
			t.Errorf("renew %+v, margin %+v", r, m)
		}
	})
}

// TestMetrics_table checks that the exported metrics have the documented names, units, buckets and
// attributes, and no others.
func TestMetrics_table(t *testing.T) {
	want := map[string]string{
		"distlock.acquire.duration": "s histogram mode outcome store",
		"distlock.hold.duration":    "s histogram end mode store",
		"distlock.renew.duration":   "s histogram outcome store",
		"distlock.lease.margin":     "s histogram store",
		"distlock.leases":           "{lease} updown mode store",
		"distlock.waiters":          "{call} updown mode store",
		"distlock.lost":             "{lease} counter reason store",
		"distlock.store.errors":     "{error} counter kind op store",
	}
	values := map[string]string{
		"mode": "exclusive shared counted", "outcome": "granted busy timeout cancelled error ok lost", "end": "released lost expired broken",
		"reason": "expired taken broken store", "op": "acquire renew release withdraw", "kind": "unavailable timeout unknown invalid", "store": "mem",
	}
	bounds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	p := newProbe(t, nil)
	everything(t, p.observe)
	scope, all := p.scope()
	if scope.Name != otellock.Scope || reflect.TypeFor[otellock.Options]().PkgPath() != otellock.Scope {
		t.Errorf("scope %q", scope.Name)
	}
	seen := map[string]bool{}
	for _, m := range all {
		kind, keys := "", map[string]bool{}
		note := func(s string) {
			for _, kv := range strings.Fields(s) {
				k, v, _ := strings.Cut(kv, "=")
				keys[k] = true
				if !slices.Contains(strings.Fields(values[k]), v) {
					t.Errorf("%s: %s is not in the closed set", m.Name, kv)
				}
			}
		}
		switch d := m.Data.(type) {
		case metricdata.Histogram[float64]:
			kind = "histogram"
			for _, x := range d.DataPoints {
				note(series("", x.Attributes))
				if !slices.Equal(x.Bounds, bounds) {
					t.Errorf("%s: buckets %v", m.Name, x.Bounds)
				}
			}
		case metricdata.Sum[int64]:
			if kind = "updown"; d.IsMonotonic {
				kind = "counter"
			}
			for _, x := range d.DataPoints {
				note(series("", x.Attributes))
			}
		}
		got := m.Unit + " " + kind
		if got = strings.Join(append([]string{got}, slices.Sorted(maps.Keys(keys))...), " "); got != want[m.Name] {
			t.Errorf("%s: %q, want %q", m.Name, got, want[m.Name])
		}
		if m.Description == "" {
			t.Errorf("%s has no description", m.Name)
		}
		seen[m.Name] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d of %d metrics", len(seen), len(want))
	}
}

// everything emits one event of every type.
func everything(t testing.TB, observe distlock.Observer) {
	t.Helper()
	ctx := context.Background()
	over, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithTimeout(ctx, -1)
	defer cancel()
	emit := func(ctx context.Context, e distlock.Event) {
		for _, e.Mode = range []distlock.Mode{distlock.ModeExclusive, distlock.ModeShared, distlock.ModeCounted} {
			e.Store, e.Name, e.Holder = "mem", "x", "me"
			observe(ctx, e)
		}
	}
	errs := []error{nil, driver.ErrUnavailable, driver.ErrInvalid, context.DeadlineExceeded, errors.New("reset")}
	for _, err := range errs {
		emit(ctx, distlock.Event{Type: distlock.EventAttempted, Err: err})
		emit(ctx, distlock.Event{Type: distlock.EventRenewed, Left: time.Second, Margin: time.Second, Err: err})
		emit(ctx, distlock.Event{Type: distlock.EventReleased, Err: err})
		emit(ctx, distlock.Event{Type: distlock.EventWithdrawn, Err: err})
	}
	emit(ctx, distlock.Event{Type: distlock.EventRenewed, Err: driver.ErrNotHeld})
	for range errs {
		emit(ctx, distlock.Event{Type: distlock.EventGranted})
	}
	held := &distlock.HeldError{Name: "x", Holder: "you"}
	for range 2 {
		emit(ctx, distlock.Event{Type: distlock.EventWaiting})
	}
	emit(ctx, distlock.Event{Type: distlock.EventRefused, Err: held})
	emit(over, distlock.Event{Type: distlock.EventRefused, Waited: true, Err: held})
	emit(late, distlock.Event{Type: distlock.EventRefused, Waited: true, Err: held})
	emit(ctx, distlock.Event{Type: distlock.EventRefused, Err: distlock.ErrUpgrade})
	for _, reason := range []distlock.Loss{distlock.LossExpired, distlock.LossTaken, distlock.LossBroken, distlock.LossMaxHold} {
		for _, risk := range []bool{false, true} {
			emit(ctx, distlock.Event{Type: distlock.EventGranted})
			emit(ctx, distlock.Event{Type: distlock.EventLost, Risk: risk, Err: &distlock.LostError{Name: "x", Reason: reason}})
		}
	}
	for _, kind := range []distlock.EventType{distlock.EventHandedOff, distlock.EventDetached} {
		emit(ctx, distlock.Event{Type: distlock.EventGranted, Handed: true})
		emit(ctx, distlock.Event{Type: kind})
	}
	emit(ctx, distlock.Event{Type: distlock.EventAtRisk})
	emit(ctx, distlock.Event{Type: distlock.EventRecovered})
}

// TestMetrics_begin checks that counters start with 0: a rate sees no increase in a series that
// starts with 1.
func TestMetrics_begin(t *testing.T) {
	p := newProbe(t, func(string) string { return "g" })
	p.observe(t.Context(), distlock.Event{Type: distlock.EventGranted, Store: "mem", Name: "x"})
	zero := map[string]int{}
	_, all := p.scope()
	for _, m := range all {
		if d, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, x := range d.DataPoints {
				if x.Value == 0 {
					zero[m.Name]++
				}
			}
		}
	}
	if zero["distlock.lost"] != 4 || zero["distlock.store.errors"] != 16 {
		t.Errorf("%v", zero)
	}
}

func TestGroups(t *testing.T) {
	p := newProbe(t, func(key string) string {
		group, _, _ := strings.Cut(key, "/")
		return strings.TrimSuffix(group, "-")
	})
	var wg sync.WaitGroup
	for g := range 150 {
		wg.Go(func() {
			for range 20 {
				key := fmt.Sprintf("g%d/%d", g, g)
				p.observe(context.Background(), distlock.Event{Type: distlock.EventGranted, Store: "mem", Name: key, Mode: distlock.ModeExclusive})
				p.observe(context.Background(), distlock.Event{Type: distlock.EventRenewed, Store: "mem", Name: key, Left: 1, Margin: 1})
			}
		})
	}
	wg.Wait()
	groups, margins := map[string]point{}, 0
	for s, x := range p.points() {
		name, rest, _ := strings.Cut(s, " group=")
		group, _, _ := strings.Cut(rest, " ")
		switch name {
		case "distlock.acquire.duration":
			groups[group] = x
		case "distlock.lease.margin":
			margins++
		default:
			if strings.Contains(s, "group=") != (name == "distlock.leases") {
				t.Errorf("%s", s)
			}
		}
	}
	if len(groups) != 101 || margins != 101 {
		t.Fatalf("%d groups, %d of the margin", len(groups), margins)
	}
	for g, x := range groups {
		if want := map[bool]uint64{true: 50 * 20, false: 20}[g == "other"]; x.count != want {
			t.Errorf("%s: %d, want %d", g, x.count, want)
		}
	}
	p.observe(t.Context(), distlock.Event{Type: distlock.EventWaiting, Store: "mem", Name: "-"})
	p.observe(t.Context(), distlock.Event{Type: distlock.EventWaiting, Store: "redis", Name: "g1/x", Mode: distlock.ModeShared})
	p.observe(t.Context(), distlock.Event{Type: distlock.EventWaiting, Store: "redis", Name: "new/x", Mode: distlock.ModeShared})
	for _, want := range []string{
		"distlock.waiters mode=counted store=mem", "distlock.waiters group=other mode=shared store=redis",
	} {
		if p.points()[want].sum < 1 {
			t.Errorf("no %s in %v", want, p.points())
		}
	}
}
