package otellock_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/store/mem"
)

func ExampleNew() {
	ctx := context.Background()
	reader := metric.NewManualReader() // a real program uses the reader of an exporter
	observer, err := otellock.New(&otellock.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		panic(err)
	}
	locker, err := distlock.New(mem.New(), distlock.Observe(observer))
	if err != nil {
		panic(err)
	}
	defer locker.Close(ctx)

	_ = locker.Do(ctx, "invoice/42", func(context.Context) error { return nil })

	var out metricdata.ResourceMetrics
	_ = reader.Collect(ctx, &out)
	for _, m := range out.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			fmt.Println(m.Name, h.DataPoints[0].Count)
		}
	}
	// Output:
	// distlock.acquire.duration 1
	// distlock.hold.duration 1
}

// Without options, the observer uses the global providers.
func ExampleNew_global() {
	locker, err := quoteGlobal(mem.New())
	fmt.Println(locker, err)
	// Output: locker on mem <nil>
}

// The names of locks are no attributes. Here the part before the first slash is one.
func ExampleOptions() {
	locker, err := quoteGroup(mem.New())
	fmt.Println(locker, err)
	// Output: locker on mem <nil>
}
