package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/distlock/distlock/server"
)

// telemetryLimit bounds how long the last metrics and spans may take to leave.
const telemetryLimit = 2 * time.Second

// telemetry has the metrics of a server, for Prometheus and, by the usual environment variables,
// for an OTLP collector. The latter gets spans too.
type telemetry struct {
	handler http.Handler // for Prometheus
	meter   metric.MeterProvider
	tracer  trace.TracerProvider // nil: no spans
	closers []func(context.Context) error
}

func newTelemetry(ctx context.Context, c *server.Certificate) (_ *telemetry, err error) {
	if err := checkProtocol(); err != nil {
		return nil, err
	}
	t := &telemetry{}
	registry := prometheus.NewRegistry()
	if err := errors.Join(registry.Register(collectors.NewGoCollector()), registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))); err != nil {
		return nil, err
	}
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	// The environment overrides the name: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "distlock")),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithResource(about)}
	if exports("METRICS") {
		out, err := otlpmetrichttp.New(ctx)
		if err != nil {
			return nil, err
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(out)))
	}
	meters := sdkmetric.NewMeterProvider(options...)
	t.meter, t.closers = meters, append(t.closers, meters.Shutdown)
	if exports("TRACES") {
		out, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, err
		}
		spans := sdktrace.NewTracerProvider(sdktrace.WithBatcher(out), sdktrace.WithResource(about))
		t.tracer, t.closers = spans, append(t.closers, spans.Shutdown)
	}
	t.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return t, t.watchCertificate(c)
}

// watchCertificate adds the time until the certificate expires to the metrics.
func (t *telemetry) watchCertificate(c *server.Certificate) error {
	if c == nil {
		return nil
	}
	_, err := t.meter.Meter("github.com/distlock/distlock/cmd/distlock").Float64ObservableGauge("distlock.server.certificate.left",
		metric.WithUnit("s"), metric.WithDescription("How long the certificate of the server is valid."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(time.Until(c.Expires()).Seconds())
			return nil
		}))
	return err
}

// close sends the last metrics and spans.
func (t *telemetry) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), telemetryLimit)
	defer cancel()
	for _, end := range t.closers {
		_ = end(ctx) // a collector that is down must not change the exit code
	}
	return nil
}

// exports reports whether the environment names an OTLP collector for METRICS or TRACES.
func exports(signal string) bool {
	switch os.Getenv("OTEL_" + signal + "_EXPORTER") {
	case "none", "prometheus", "console":
		return false
	case "otlp":
		return !disabled()
	}
	return !disabled() && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != "")
}

func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// checkProtocol refuses protocols other than HTTP: their exporters are not linked.
func checkProtocol() error {
	for _, signal := range []string{"", "METRICS_", "TRACES_"} {
		name := "OTEL_EXPORTER_OTLP_" + signal + "PROTOCOL"
		if p := os.Getenv(name); p != "" && p != "http/protobuf" && !disabled() {
			return fmt.Errorf("%s=%.32q: this server sends http/protobuf only, to port 4318 of most collectors", name, p)
		}
	}
	return nil
}
