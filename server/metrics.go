package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// buckets are those of all histograms: from a round trip in memory to the longest call.
var buckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// metrics are the metrics of a server. Their attributes are closed sets: names of locks and
// identities are none of them.
type metrics struct {
	calls    metric.Float64Histogram
	store    metric.Float64Histogram
	renewals metric.Int64Counter
	limited  metric.Int64Counter
	refused  metric.Int64Counter

	sets sync.Map // of labels to metric.MeasurementOption: to make one costs more than to record
}

// labels are the attributes of a measurement.
type labels struct{ key, value, key2, value2 string }

// with returns labels as an option.
func (m *metrics) with(l labels) metric.MeasurementOption {
	if o, ok := m.sets.Load(l); ok {
		return o.(metric.MeasurementOption)
	}
	attrs := []attribute.KeyValue{attribute.String(l.key, l.value)}
	if l.value2 != "" {
		attrs = append(attrs, attribute.String(l.key2, l.value2))
	}
	o := metric.WithAttributeSet(attribute.NewSet(attrs...))
	m.sets.Store(l, o) // the values are closed sets, so there are few
	return o
}

func newMetrics(ctx context.Context, p metric.MeterProvider) (*metrics, metric.Meter, error) {
	if p == nil {
		p = noop.NewMeterProvider()
	}
	meter := p.Meter("github.com/distlock/distlock/server")
	var errs []error
	seconds := func(name, text string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	count := func(name, unit, text string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	m := &metrics{
		calls:    seconds("distlock.server.call.duration", "How long calls of the API took, the wait for a lock included."),
		store:    seconds("distlock.server.store.duration", "How long calls of the store took."),
		renewals: count("distlock.server.renewals", "{claim}", "Claims that were renewed, or could not be."),
		limited:  count("distlock.server.limited", "{call}", "Calls that were refused because of a limit."),
		refused:  count("distlock.server.refused", "{call}", "Calls that were refused before they reached the API."),
	}
	m.start(ctx)
	return m, meter, errors.Join(errs...)
}

// start starts counters with 0: a rate sees no increase in a series that starts with 1.
func (m *metrics) start(ctx context.Context) {
	for _, limit := range []string{limitCalls, limitKeeps, limitWaits, limitWatches, limitClaims, limitRecords, limitBusy, limitConns} {
		m.limited.Add(ctx, 0, m.with(labels{key: "limit", value: limit}))
	}
	for _, outcome := range []string{"ok", "not_held", "broken", "unavailable", "unknown"} {
		m.renewals.Add(ctx, 0, m.with(labels{key: "outcome", value: outcome}))
	}
}

// observe registers the levels of a server.
func (s *Server) observe(meter metric.Meter) error {
	var errs []error
	level := func(name, unit, text string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return g
	}
	ready := level("distlock.server.ready", "1", "Whether the server is ready: 1 or 0.")
	audited := level("distlock.server.audited", "1", "Whether the audit is written: 1 or 0.")
	conns := level("distlock.server.connections", "{connection}", "Open connections.")
	waits := level("distlock.server.waits", "{call}", "Calls that wait for a lock.")
	watches := level("distlock.server.watches", "{watch}", "Watches of clients that wait.")
	claims := level("distlock.server.claims", "{claim}", "Claims that were granted here and may live.")
	calls := level("distlock.server.store.calls", "{call}", "Calls of the store, under way and queued.")
	_, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		o.ObserveInt64(ready, one(s.ready(ctx) == nil))
		o.ObserveInt64(audited, one(s.opt.Audit.Err() == nil))
		o.ObserveInt64(conns, int64(s.op.conns.size()))
		nWaits, nWatches, nClaims := s.op.quota.totals()
		o.ObserveInt64(waits, nWaits)
		o.ObserveInt64(watches, nWatches)
		o.ObserveInt64(claims, nClaims)
		for name, l := range map[string]*slots{"call": s.op.gate.calls, "list": s.op.gate.lists} {
			used, queued := l.size()
			o.ObserveInt64(calls, int64(used), metric.WithAttributes(attribute.String("kind", name), attribute.String("state", "running")))
			o.ObserveInt64(calls, int64(queued), metric.WithAttributes(attribute.String("kind", name), attribute.String("state", "queued")))
		}
		return nil
	}, ready, audited, conns, waits, watches, claims, calls)
	return errors.Join(append(errs, err)...)
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// stored records a call of the store. No outcome means that each of its claims has its own.
func (m *metrics) stored(ctx context.Context, op, outcome string, began time.Time) {
	m.store.Record(ctx, time.Since(began).Seconds(), m.with(labels{"op", op, "outcome", outcome}))
}

// renewed counts a renewal.
func (m *metrics) renewed(ctx context.Context, outcome string) {
	m.renewals.Add(ctx, 1, m.with(labels{key: "outcome", value: outcome}))
}

// limit counts a call over a limit.
func (m *metrics) limit(ctx context.Context, limit string) {
	m.limited.Add(ctx, 1, m.with(labels{key: "limit", value: limit}))
}

// refusal counts a call that did not reach the API, by the code of its error.
func (m *metrics) refusal(ctx context.Context, err error) {
	m.refused.Add(ctx, 1, m.with(labels{key: "code", value: code(err)}))
}

// code returns the code of an answer.
func code(err error) string {
	if err == nil {
		return "ok"
	}
	return connect.CodeOf(err).String()
}
