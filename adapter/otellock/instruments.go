package otellock

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// buckets are the same for all histograms: from a round trip in memory to a hold of half an hour.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// instruments has all metrics.
type instruments struct {
	acquired metric.Float64Histogram
	held     metric.Float64Histogram
	renewals metric.Float64Histogram
	margin   metric.Float64Histogram
	leases   metric.Int64UpDownCounter
	waiters  metric.Int64UpDownCounter
	lost     metric.Int64Counter
	errors   metric.Int64Counter
}

func newInstruments(m metric.Meter) (*instruments, error) {
	var errs []error
	seconds := func(name, text string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	level := func(name, unit, text string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	count := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	i := &instruments{
		acquired: seconds("distlock.acquire.duration", "How long calls for a lock took, the wait included."),
		held:     seconds("distlock.hold.duration", "How long leases were held."),
		renewals: seconds("distlock.renew.duration", "How long the store took to answer a renewal."),
		margin:   seconds("distlock.lease.margin", "How much trust was left when a renewal succeeded."),
		leases:   level("distlock.leases", "{lease}", "Leases that are held now."),
		waiters:  level("distlock.waiters", "{call}", "Calls that wait for a lock now."),
		lost:     count("distlock.lost", "{lease}", "Leases that were lost."),
		errors:   count("distlock.store.errors", "{error}", "Calls to the store that failed, counted once for each lease of the call."),
	}
	return i, errors.Join(errs...)
}

// begin starts the counters of errors and losses with 0: a rate sees no increase in a series that
// starts with 1.
func (i *instruments) begin(at *label) {
	ctx := context.Background()
	for _, opts := range at.lost {
		i.lost.Add(ctx, 0, opts...)
	}
	for _, kinds := range at.store.errors {
		for _, opts := range kinds {
			i.errors.Add(ctx, 0, opts...)
		}
	}
}
