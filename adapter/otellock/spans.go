package otellock

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/distlock/distlock"
)

// The attributes of spans. Other than those of metrics they stand beside attributes of everybody else, and are named in full.
const (
	attrStore   = attribute.Key("distlock.store")
	attrName    = attribute.Key("distlock.name")
	attrMode    = attribute.Key("distlock.mode")
	attrHolder  = attribute.Key("distlock.holder")
	attrFence   = attribute.Key("distlock.fence")
	attrOutcome = attribute.Key("distlock.outcome") // of distlock.acquire
	attrWait    = attribute.Key("distlock.wait")    // seconds of it in line
	attrHanded  = attribute.Key("distlock.handed")  // by another goroutine of the process, without the store
	attrBlocker = attribute.Key("distlock.blocker") // who has what was refused
	attrEnd     = attribute.Key("distlock.end")     // of distlock.hold
)

// spans makes spans of what is over: of an event that says how long it took.
type spans struct{ tracer trace.Tracer } // nil: nobody wants any

func newSpans(p trace.TracerProvider, version string) spans {
	if _, off := p.(noop.TracerProvider); off { // to ask it for a span costs memory all the same
		return spans{}
	}
	return spans{p.Tracer(Scope, trace.WithInstrumentationVersion(version))}
}

// acquire begins the span of a call for a lock, which ends now.
func (s spans) acquire(ctx context.Context, e *distlock.Event, outcome string) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, noop.Span{}
	}
	now := time.Now()
	ctx, span := s.tracer.Start(ctx, "distlock.acquire", trace.WithTimestamp(now.Add(-e.Took)))
	if !span.IsRecording() {
		return ctx, span
	}
	span.SetAttributes(common(e, attrOutcome.String(outcome))...)
	if e.Waited {
		span.AddEvent("waiting", trace.WithTimestamp(now.Add(-e.Wait)))
		span.SetAttributes(attrWait.Float64(e.Wait.Seconds()))
	}
	if e.Handed {
		span.SetAttributes(attrHanded.Bool(true))
	}
	if e.Err != nil {
		refused(span, e.Err, outcome)
	}
	return ctx, span
}

// refused tells why a call got no lease.
func refused(span trace.Span, err error, outcome string) {
	var held *distlock.HeldError
	if errors.As(err, &held) && held.Holder != "" {
		span.SetAttributes(attrBlocker.String(clean(held.Holder)))
	}
	switch outcome {
	case outcomes[timeout], outcomes[failed]: // to find it busy, or to leave, may be what the caller wants
		span.SetStatus(codes.Error, clean(err.Error()))
	}
}

// hold begins the span of a lease, which ends now. It belongs to the trace of the call that took the lease. If it was given back in another
// trace, there is a link to that.
func (s spans) hold(ctx context.Context, e *distlock.Event, end string) (context.Context, trace.Span) {
	from := ctx
	if e.Origin != nil {
		from = e.Origin
	}
	if s.tracer == nil {
		return from, noop.Span{}
	}
	at, span := s.tracer.Start(from, "distlock.hold", trace.WithTimestamp(time.Now().Add(-e.Took)))
	if !span.IsRecording() {
		return at, span
	}
	span.SetAttributes(common(e, attrEnd.String(end))...)
	if by := trace.SpanContextFromContext(ctx); by.IsValid() && by.TraceID() != span.SpanContext().TraceID() {
		span.AddLink(trace.Link{SpanContext: by})
	}
	if e.Err != nil { // it is lost, or may stay taken
		span.SetStatus(codes.Error, clean(e.Err.Error()))
	}
	return at, span
}

// common are the attributes of both, and one more.
func common(e *distlock.Event, more attribute.KeyValue) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 6)
	all = append(all, attrStore.String(e.Store), attrName.String(clean(e.Name)), attrMode.String(string(e.Mode)), attrHolder.String(clean(e.Holder)), more)
	if e.Fence > 0 {
		all = append(all, attrFence.Int64(int64(e.Fence)))
	}
	return all
}

// clean makes a text fit for a protocol that takes UTF-8 only, and else loses the whole batch: a store may say anything.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
