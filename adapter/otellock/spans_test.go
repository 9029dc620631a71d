package otellock_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/locktest"
)

func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newProbe(t, nil), locktest.New(t)
		l := p.locker(s)
		ctx, parent := p.tracers.Tracer("test").Start(t.Context(), "request")
		rival, began := s.Hold("x", "you"), time.Now()
		time.AfterFunc(2*time.Second, rival.Release)
		lease := must(t)(l.Lock(ctx, "x"))
		parent.End()
		time.Sleep(5 * time.Second)
		_ = lease.Unlock(context.Background()) // with a context without a trace

		acquire, hold := p.ended("distlock.acquire")[0], p.ended("distlock.hold")[0]
		for _, span := range []interface{ Parent() trace.SpanContext }{acquire, hold} {
			if span.Parent().SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("the parent is %v, want %v", span.Parent(), parent.SpanContext())
			}
		}
		if !acquire.StartTime().Equal(began) || acquire.EndTime().Sub(began) != 2*time.Second {
			t.Errorf("acquire from %v to %v", acquire.StartTime().Sub(began), acquire.EndTime().Sub(began))
		}
		if hold.StartTime().Sub(began) != 2*time.Second || hold.EndTime().Sub(began) != 7*time.Second {
			t.Errorf("hold from %v to %v", hold.StartTime().Sub(began), hold.EndTime().Sub(began))
		}
		if e := acquire.Events(); len(e) != 1 || e[0].Name != "waiting" || !e[0].Time.Equal(began) {
			t.Errorf("events %v", e)
		}
		fence := hold.Attributes()[len(hold.Attributes())-1].Value.AsInt64()
		if fence != int64(lease.Fence()) {
			t.Errorf("fence %d, want %d", fence, lease.Fence())
		}
		want := map[string]string{"store": "locktest", "name": "x", "kind": "lock", "mode": "exclusive", "holder": "me", "fence": attrs(hold)["fence"], "outcome": "granted", "wait": "2"}
		if got := attrs(acquire); !maps.Equal(got, want) {
			t.Errorf("acquire %v, want %v", got, want)
		}
		delete(want, "outcome")
		delete(want, "wait")
		want["end"] = "released"
		if got := attrs(hold); !maps.Equal(got, want) {
			t.Errorf("hold %v, want %v", got, want)
		}
		if len(hold.Links()) != 0 || acquire.Status().Code != codes.Unset || hold.Status().Code != codes.Unset {
			t.Errorf("links %v, status %v and %v", hold.Links(), acquire.Status(), hold.Status())
		}
		if acquire.InstrumentationScope().Name != otellock.Scope {
			t.Errorf("scope %v", acquire.InstrumentationScope())
		}
	})
}

func TestSpans_status(t *testing.T) {
	bad := "down \xff"
	for name, c := range map[string]struct {
		play   func(t *testing.T, s *locktest.Store, l *distlock.Locker)
		span   string
		is     string // the outcome or the end
		code   codes.Code
		text   string
		others map[string]string
	}{
		"busy": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			_, _ = l.TryLock(t.Context(), "x")
		}, "distlock.acquire", "busy", codes.Unset, "", map[string]string{"blocker": "you"}},
		"timeout": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Hold("x", "you")
			_, _ = l.Lock(t.Context(), "x", distlock.MaxWait(time.Minute))
		}, "distlock.acquire", "timeout", codes.Error, "\ncontext deadline exceeded", map[string]string{"wait": "60"}},
		"unavailable": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			s.Down()
			_, _ = l.Lock(t.Context(), "x")
			s.Up()
		}, "distlock.acquire", "error", codes.Error, `distlock: acquire "x": `, nil},
		"lost": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			s.Steal("x")
			<-lease.Done()
		}, "distlock.hold", "lost", codes.Error, `distlock: lease of "x" lost: the store no longer holds it`, nil},
		"handed": {func(t *testing.T, s *locktest.Store, l *distlock.Locker) {
			lease := must(t)(l.Lock(t.Context(), "x"))
			time.AfterFunc(time.Millisecond, func() { _ = lease.Unlock(t.Context()) })
			must(t)(l.Lock(t.Context(), "x"))
		}, "distlock.acquire", "granted", codes.Unset, "", map[string]string{"handed": "true"}},
		"not UTF-8": {func(t *testing.T, _ *locktest.Store, l *distlock.Locker) {
			_ = must(t)(l.Lock(t.Context(), "y")).Unlock(t.Context())
		}, "distlock.hold", "released", codes.Error, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, s := newProbe(t, nil), locktest.New(t)
				if name == "not UTF-8" { // a server may send any text
					c.text = "down \uFFFD"
					p.observe(t.Context(), distlock.Event{Type: distlock.EventReleased, Name: bad, Err: errors.New(bad)})
				} else {
					c.play(t, s, p.locker(s))
				}
				synctest.Wait()
				spans := p.ended(c.span)
				span := spans[len(spans)-1]
				got := attrs(span)
				for k, v := range got {
					if !utf8.ValidString(v) {
						t.Errorf("%s=%q", k, v)
					}
				}
				if got["outcome"]+got["end"] != c.is || span.Status().Code != c.code {
					t.Errorf("%v, %v", got, span.Status())
				}
				if text := span.Status().Description; !strings.Contains(text, c.text) || (text == "") != (c.text == "") {
					t.Errorf("%q, want %q", text, c.text)
				}
				for k, v := range c.others {
					if got[k] != v {
						t.Errorf("%s=%s, want %s", k, got[k], v)
					}
				}
			})
		})
	}
}

// TestSpans_link checks that a lease belongs to the trace that acquired it, with a link to the
// trace that released it.
func TestSpans_link(t *testing.T) {
	p, s := newProbe(t, nil), locktest.New(t)
	l := p.locker(s)
	tracer := p.tracers.Tracer("test")
	one, first := tracer.Start(t.Context(), "one")
	two, second := tracer.Start(t.Context(), "two")
	_ = must(t)(l.Lock(one, "x")).Unlock(two)
	_ = must(t)(l.Lock(one, "x")).Unlock(one)
	holds := p.ended("distlock.hold")
	for _, h := range holds {
		if h.SpanContext().TraceID() != first.SpanContext().TraceID() {
			t.Errorf("trace %v", h.SpanContext())
		}
	}
	if links := holds[0].Links(); len(links) != 1 || !links[0].SpanContext.Equal(second.SpanContext()) {
		t.Errorf("links %v", links)
	}
	if links := holds[1].Links(); len(links) != 0 {
		t.Errorf("links %v to the same trace", links)
	}
}

// TestSpans_exemplars checks that exemplars refer to the spans of distlock.
func TestSpans_exemplars(t *testing.T) {
	p, s := newProbe(t, nil), locktest.New(t)
	ctx, parent := p.tracers.Tracer("test").Start(t.Context(), "request")
	defer parent.End()
	_ = must(t)(p.locker(s).Lock(ctx, "x")).Unlock(ctx)
	found := map[string]bool{}
	_, all := p.scope()
	for _, m := range all {
		if d, ok := m.Data.(metricdata.Histogram[float64]); ok {
			for _, x := range d.DataPoints {
				for _, e := range x.Exemplars {
					found[m.Name+" "+trace.SpanID(e.SpanID).String()] = true
				}
			}
		}
	}
	for name, metric := range map[string]string{"distlock.acquire": "distlock.acquire.duration", "distlock.hold": "distlock.hold.duration"} {
		if id := p.ended(name)[0].SpanContext().SpanID().String(); !found[metric+" "+id] {
			t.Errorf("%s has no exemplar of %s: %v", metric, id, found)
		}
	}
}

func TestNew_defaults(t *testing.T) {
	for _, opt := range []*otellock.Options{nil, {}, {TracerProvider: noop.NewTracerProvider(), MeterProvider: metric.NewMeterProvider()}} {
		observe, err := otellock.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		everything(t, observe)
		observe(t.Context(), distlock.Event{}) // of an unknown type
		observe(t.Context(), distlock.Event{Type: distlock.EventReleased, Err: driver.ErrUnavailable})
	}
}
