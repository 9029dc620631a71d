package server

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// measured is a connect.Interceptor that measures calls, and makes a span for each.
type measured struct {
	*metrics
	tracer trace.Tracer // nil: no spans
}

func newMeasured(m *metrics, p trace.TracerProvider) measured {
	if p == nil {
		return measured{metrics: m}
	}
	return measured{m, p.Tracer("github.com/distlock/distlock/server")}
}

// begin begins a call. The span is part of the trace that the client names.
func (m measured) begin(ctx context.Context, procedure string, h http.Header) (_ context.Context, end func(error)) {
	began := time.Now()
	var span trace.Span
	if m.tracer != nil {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
		ctx, span = m.tracer.Start(ctx, procedure[1:], trace.WithSpanKind(trace.SpanKindServer))
	}
	return ctx, func(err error) {
		code := code(err)
		m.calls.Record(ctx, time.Since(began).Seconds(), m.with(labels{"call", procedure[1:], "code", code}))
		if span == nil {
			return
		}
		span.SetAttributes(attribute.String("rpc.system", "connect_rpc"), attribute.String("rpc.connect_rpc.error_code", code))
		if err != nil {
			span.SetStatus(codes.Error, code)
		}
		span.End()
	}
}

// WrapUnary measures a call with one answer.
func (m measured) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, end := m.begin(ctx, r.Spec().Procedure, r.Header())
		answer, err := next(ctx, r)
		end(err)
		return answer, err
	}
}

// WrapStreamingHandler measures a stream.
func (m measured) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, c connect.StreamingHandlerConn) error {
		ctx, end := m.begin(ctx, c.Spec().Procedure, c.RequestHeader())
		err := next(ctx, c)
		end(err)
		return err
	}
}

// WrapStreamingClient is for clients.
func (m measured) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
