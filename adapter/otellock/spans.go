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

// The attributes of spans. Unlike those of metrics they are mixed with attributes of other
// packages, so they have full names.
const (
	attrStore   = attribute.Key("distlock.store")
	attrName    = attribute.Key("distlock.name")
	attrKind    = attribute.Key("distlock.kind")
	attrMode    = attribute.Key("distlock.mode")
	attrHolder  = attribute.Key("distlock.holder")
	attrFence   = attribute.Key("distlock.fence")
	attrOutcome = attribute.Key("distlock.outcome") // of distlock.acquire
	attrWait    = attribute.Key("distlock.wait")    // seconds of it that were spent waiting
	attrHanded  = attribute.Key("distlock.handed")  // by another goroutine of the process, without the store
	attrBlocker = attribute.Key("distlock.blocker") // the holder of the refused lock
	attrEnd     = attribute.Key("distlock.end")     // of distlock.hold
)

// spans creates spans that end now, from events that say how long they took.
type spans struct{ tracer trace.Tracer } // nil: no spans are wanted

func newSpans(p trace.TracerProvider, version string) spans {
	if _, off := p.(noop.TracerProvider); off { // its Start would still allocate memory
		return spans{}
	}
	return spans{p.Tracer(Scope, trace.WithInstrumentationVersion(version))}
}

// acquire starts the span of a call for a lock, which ends now.
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

// refused records why a call got no lease.
func refused(span trace.Span, err error, outcome string) {
	var held *distlock.HeldError
	if errors.As(err, &held) && held.Holder != "" {
		span.SetAttributes(attrBlocker.String(clean(held.Holder)))
	}
	switch outcome {
	case outcomes[timeout], outcomes[failed]: // busy and cancelled may be what the caller wants
		span.SetStatus(codes.Error, clean(err.Error()))
	}
}

// hold starts the span of a lease, which ends now. It belongs to the trace of the call that
// acquired the lease. If the lease was released in another trace, the span has a link to that
// trace.
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
	if e.Err != nil { // the lease is lost, or the name may stay locked
		span.SetStatus(codes.Error, clean(e.Err.Error()))
	}
	return at, span
}

// common returns the attributes of both spans, and one more.
func common(e *distlock.Event, more attribute.KeyValue) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 7)
	all = append(all, attrStore.String(e.Store), attrName.String(clean(e.Name)), attrKind.String(string(e.Kind)), attrMode.String(string(e.Mode)), attrHolder.String(clean(e.Holder)), more)
	if e.Fence > 0 {
		all = append(all, attrFence.Int64(int64(e.Fence)))
	}
	return all
}

// clean replaces invalid UTF-8. The text may come from a store, and the OTLP protocol would lose
// the whole batch because of one invalid text.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
