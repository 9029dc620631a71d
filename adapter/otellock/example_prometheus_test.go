package otellock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// The page docs/observability.md quotes quoteServe and the functions below.
func quoteServe(store driver.Store, mux *http.ServeMux) (*distlock.Locker, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry)) // go.opentelemetry.io/otel/exporters/prometheus
	if err != nil {
		return nil, err
	}
	observer, err := otellock.New(&otellock.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		return nil, err
	}
	// OpenMetrics has exemplars, the older format does not.
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	return distlock.New(store,
		distlock.Observe(observer),
		distlock.Observe(distlock.Log(nil)), // and warnings to slog's default logger
	)
}

func quoteGlobal(store driver.Store) (*distlock.Locker, error) {
	observer, err := otellock.New(nil) // the providers of otel.SetMeterProvider and otel.SetTracerProvider
	if err != nil {
		return nil, err
	}
	return distlock.New(store, distlock.Observe(observer))
}

func quoteGroup(store driver.Store) (*distlock.Locker, error) {
	observer, err := otellock.New(&otellock.Options{
		Group: func(key string) string {
			group, _, _ := strings.Cut(key, "/")
			return group // "invoice" of "invoice/42"
		},
	})
	if err != nil {
		return nil, err
	}
	return distlock.New(store, distlock.Observe(observer))
}

func quoteSpan(ctx context.Context, tracer trace.Tracer, locker *distlock.Locker) error {
	ctx, span := tracer.Start(ctx, "charge")
	defer span.End()
	lease, err := locker.Lock(ctx, "invoice/42") // distlock.acquire, below charge
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)                 // distlock.hold, below charge
	return charge(lease.Context(ctx), span) // its spans are next to distlock.hold
}

func charge(context.Context, trace.Span) error { return nil }

func ExampleNew_prometheus() {
	ctx := context.Background()
	mux := http.NewServeMux()
	locker, err := quoteServe(mem.New(), mux)
	if err != nil {
		panic(err)
	}
	defer locker.Close(ctx)
	_ = locker.Do(ctx, "invoice/42", func(context.Context) error { return nil })

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "distlock_acquire_duration_seconds_count") {
			fmt.Fprint(os.Stdout, line[strings.Index(line, "outcome="):])
		}
	}
	// Output: outcome="granted",store="mem"} 1
}

func ExampleNew_spans() {
	p := &spanPrinter{}
	observer, err := otellock.New(&otellock.Options{TracerProvider: p.provider()})
	if err != nil {
		panic(err)
	}
	locker, err := distlock.New(mem.New(), distlock.Observe(observer))
	if err != nil {
		panic(err)
	}
	defer locker.Close(context.Background())
	fmt.Println(quoteSpan(context.Background(), p.provider().Tracer("example"), locker))
	p.print()
	// Output:
	// <nil>
	// charge
	//   distlock.acquire invoice/42 granted
	//   distlock.hold invoice/42 released
}
