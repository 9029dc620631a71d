package otellock_test

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A spanPrinter prints spans as a tree, as people see them.
type spanPrinter struct {
	spans *tracetest.SpanRecorder
	p     *trace.TracerProvider
}

func (s *spanPrinter) provider() *trace.TracerProvider {
	if s.p == nil {
		s.spans = tracetest.NewSpanRecorder()
		s.p = trace.NewTracerProvider(trace.WithSpanProcessor(s.spans))
	}
	return s.p
}

func (s *spanPrinter) print() {
	all := s.spans.Ended()
	slices.SortStableFunc(all, func(a, b trace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	for _, span := range all {
		indent, a := "", attrs(span)
		if span.Parent().IsValid() {
			indent = "  "
		}
		fmt.Println(strings.TrimRight(fmt.Sprintf("%s%s %s %s", indent, span.Name(), a["name"], a["outcome"]+a["end"]), " "))
	}
}
