package otellock_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A probe is an observer and the data that it has exported.
type probe struct {
	testing.TB
	observe distlock.Observer
	reader  *metric.ManualReader
	spans   *tracetest.SpanRecorder
	tracers *trace.TracerProvider
}

func newProbe(t testing.TB, group func(string) string) *probe {
	t.Helper()
	p := &probe{TB: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	p.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(p.spans))
	var err error
	p.observe, err = otellock.New(&otellock.Options{
		MeterProvider: metric.NewMeterProvider(metric.WithReader(p.reader)), TracerProvider: p.tracers, Group: group,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// locker returns a Locker that the probe observes.
func (p *probe) locker(store driver.Store, opts ...distlock.Option) *distlock.Locker {
	p.Helper()
	l, err := distlock.New(store, append(opts, distlock.Observe(p.observe), distlock.Holder("me"))...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// scope returns all metrics.
func (p *probe) scope() (instrumentation.Scope, []metricdata.Metrics) {
	p.Helper()
	var out metricdata.ResourceMetrics
	if err := p.reader.Collect(context.Background(), &out); err != nil {
		p.Fatal(err)
	}
	if len(out.ScopeMetrics) == 0 {
		return instrumentation.Scope{}, nil
	}
	if len(out.ScopeMetrics) != 1 {
		p.Fatalf("%d scopes", len(out.ScopeMetrics))
	}
	return out.ScopeMetrics[0].Scope, out.ScopeMetrics[0].Metrics
}

// A point is one series: how often something was measured, and the sum of it.
type point struct {
	count uint64 // of a histogram
	sum   float64
}

// points returns all series that are not 0, by name and attributes: "distlock.leases mode=exclusive
// store=mem".
func (p *probe) points() map[string]point {
	p.Helper()
	out := map[string]point{}
	_, all := p.scope()
	for _, m := range all {
		switch d := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, x := range d.DataPoints {
				out[series(m.Name, x.Attributes)] = point{x.Count, x.Sum}
			}
		case metricdata.Sum[int64]:
			for _, x := range d.DataPoints {
				if x.Value != 0 {
					out[series(m.Name, x.Attributes)] = point{sum: float64(x.Value)}
				}
			}
		default:
			p.Fatalf("%s is a %T", m.Name, d)
		}
	}
	return out
}

func series(name string, set attribute.Set) string {
	for _, kv := range set.ToSlice() { // sorted by key
		name += fmt.Sprintf(" %s=%s", kv.Key, kv.Value.AsString())
	}
	return name
}

// want fails if the series that are not 0 are others than these.
func (p *probe) want(want ...string) {
	p.Helper()
	got := slices.Sorted(maps.Keys(p.points()))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.Errorf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// ended returns the spans of a name.
func (p *probe) ended(name string) []trace.ReadOnlySpan {
	var out []trace.ReadOnlySpan
	for _, s := range p.spans.Ended() {
		if s.Name() == name {
			out = append(out, s)
		}
	}
	return out
}

// attrs returns the attributes of a span as text.
func attrs(s trace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, kv := range s.Attributes() {
		out[strings.TrimPrefix(string(kv.Key), "distlock.")] = kv.Value.String()
	}
	return out
}
