// Package otellock exports metrics and spans of distributed locks to OpenTelemetry.
//
//	observer, err := otellock.New(nil) // to the global providers
//	...
//	locker, err := distlock.New(store,
//		distlock.Observe(observer), distlock.Observe(distlock.Log(nil)))
//
// # Metrics
//
//	distlock.acquire.duration   histogram, s      store, mode; outcome: granted, busy, timeout,
//	                                              cancelled, error
//	distlock.hold.duration      histogram, s      store, mode; end: released, lost, expired,
//	                                              broken
//	distlock.renew.duration     histogram, s      store; outcome: ok, lost, error
//	distlock.lease.margin       histogram, s      store
//	distlock.leases             up-down counter   store, mode
//	distlock.waiters            up-down counter   store, mode
//	distlock.lost               counter           store; reason: expired, taken, broken, store
//	distlock.store.errors       counter           store; op: acquire, renew, release, withdraw;
//	                                              kind: unavailable, timeout, unknown, invalid
//
// The margin is how much trust was left when a renewal succeeded. In normal operation it is about
// 60 % of the TTL. It shrinks before leases are lost. The page docs/observability.md explains every
// value, and has a dashboard and alerts.
//
// No metric has the names of locks, because there may be millions of names. [Options].Group maps
// the names to a few groups.
//
// # Spans
//
// A call for a lock is a span distlock.acquire. It is a child of the span in the context of the
// call, and has an event at the start of the wait. A lease is a span distlock.hold next to the span
// of the call, even if another goroutine releases the lease. If the lease was lost, the span ends
// with an error. Both spans have the name, the kind, the mode, the holder and the fence (fencing
// token). Both are created when they end. So the spans of the client of a store are not their
// children.
//
// Durations are recorded under these spans: exemplars link a slow bucket to the trace.
package otellock

import (
	"context"
	"errors"
	"runtime/debug"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/distlock/distlock"
)

// Scope is the name of the instrumentation scope of all metrics and spans.
const Scope = "github.com/distlock/distlock/adapter/otellock"

// Options are the options of [New]. The zero value of each field is its default.
type Options struct {
	MeterProvider  metric.MeterProvider // nil: the global one
	TracerProvider trace.TracerProvider // nil: the global one; noop.NewTracerProvider makes no spans

	// Group returns the attribute "group" for the name of a lock. It is on all metrics except
	// distlock.renew.duration and distlock.store.errors. An empty group is no attribute. The first
	// 100 groups are separate, all others are "other". Group is called for every event, by many
	// goroutines. Nil means no groups.
	Group func(key string) string
}

// New returns an observer for [distlock.Observe]. Several Lockers may share it. Nil [Options] are
// the defaults. New returns an error if a provider refuses an instrument.
func New(opt *Options) (distlock.Observer, error) {
	if opt == nil {
		opt = &Options{}
	}
	meters, tracers := opt.MeterProvider, opt.TracerProvider
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	version := version()
	instruments, err := newInstruments(meters.Meter(Scope, metric.WithInstrumentationVersion(version)))
	if err != nil {
		return nil, err
	}
	o := &observer{
		instruments: instruments,
		spans:       newSpans(tracers, version),
		labels:      newLabels(opt.Group, instruments.begin),
	}
	return o.observe, nil
}

// version returns the version of the module in this program. It is empty if the version is not
// known.
func version() string {
	const module = "github.com/distlock/distlock"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == module {
			if m.Replace != nil {
				return m.Replace.Version
			}
			return m.Version
		}
	}
	return ""
}

// An observer stores nothing about a lease: every event has all the data to record. So nothing can
// leak, and the order of the events of several goroutines does not matter.
type observer struct {
	*instruments
	spans
	labels *labels
}

func (o *observer) observe(ctx context.Context, e distlock.Event) {
	at := o.labels.of(&e)
	mode := modeOf(e.Mode)
	switch e.Type {
	case distlock.EventAttempted:
		// A call that its caller cancelled says nothing about the store.
		if e.Err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			o.failed(ctx, at, opAcquire, e.Err)
		}
	case distlock.EventWithdrawn:
		o.failed(ctx, at, opWithdraw, e.Err)
	case distlock.EventWaiting:
		o.waiters.Add(ctx, 1, at.waiters[mode]...)
	case distlock.EventGranted, distlock.EventRefused:
		o.answered(ctx, at, mode, &e)
	case distlock.EventRenewed:
		o.renewed(ctx, at, &e)
	case distlock.EventReleased, distlock.EventHandedOff, distlock.EventLost:
		o.ended(ctx, at, mode, &e)
	case distlock.EventDetached: // another process holds it now, or it was a pass of a Limiter
		o.leases.Add(ctx, -1, at.leases[mode]...)
	}
}

// answered records the end of a call for a lock.
func (o *observer) answered(ctx context.Context, at *label, mode int, e *distlock.Event) {
	if e.Waited {
		o.waiters.Add(ctx, -1, at.waiters[mode]...)
	}
	if e.Type == distlock.EventGranted {
		o.leases.Add(ctx, 1, at.leases[mode]...)
	}
	outcome := outcomeOf(ctx, e)
	ctx, span := o.acquire(ctx, e, outcomes[outcome])
	o.acquired.Record(ctx, e.Took.Seconds(), at.acquired[mode][outcome]...)
	span.End()
}

// renewed records the end of a renewal.
func (o *observer) renewed(ctx context.Context, at *label, e *distlock.Event) {
	outcome := renewalOf(e)
	o.renewals.Record(ctx, e.Took.Seconds(), at.store.renewals[outcome]...)
	if outcome == renewError {
		o.failed(ctx, at, opRenew, e.Err)
	}
	if e.Margin > 0 {
		o.margin.Record(ctx, e.Margin.Seconds(), at.margin...)
	}
}

// ended records the end of a hold.
func (o *observer) ended(ctx context.Context, at *label, mode int, e *distlock.Event) {
	o.leases.Add(ctx, -1, at.leases[mode]...)
	if e.Type == distlock.EventReleased {
		o.failed(ctx, at, opRelease, e.Err)
	}
	end := endReleased
	if e.Type == distlock.EventLost {
		var reason int
		reason, end = lossOf(e)
		o.lost.Add(ctx, 1, at.lost[reason]...)
	}
	ctx, span := o.hold(ctx, e, ends[end])
	o.held.Record(ctx, e.Took.Seconds(), at.held[mode][end]...)
	span.End()
}

// failed counts err as an error of the store, if err is not nil.
func (o *observer) failed(ctx context.Context, at *label, op int, err error) {
	if err != nil {
		o.errors.Add(ctx, 1, at.store.errors[op][failureOf(err)]...)
	}
}
