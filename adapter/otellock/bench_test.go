package otellock_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/otellock"
	"github.com/distlock/distlock/store/mem"
)

// lives has the events of typical locks.
var lives = []struct {
	name   string
	events []distlock.Event
}{
	{"pair", []distlock.Event{{Type: distlock.EventAttempted}, {Type: distlock.EventGranted}, {Type: distlock.EventReleased}}},
	{"wait", []distlock.Event{{Type: distlock.EventWaiting}, {Type: distlock.EventGranted, Waited: true, Handed: true}, {Type: distlock.EventHandedOff}}},
	{"renewal", []distlock.Event{{Type: distlock.EventRenewed, Took: time.Millisecond, Left: time.Second, Margin: time.Second}}},
}

func play(ctx context.Context, observe distlock.Observer, events []distlock.Event) {
	for _, e := range events {
		e.Store, e.Name, e.Mode, e.Holder, e.Fence, e.Origin = "mem", "invoice/42", distlock.ModeExclusive, "me", 1e15, ctx
		observe(ctx, e)
	}
}

// providers returns configurations of the adapter, with different costs.
func providers(t testing.TB) map[string]*otellock.Options {
	t.Helper()
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	always := sdktrace.NewTracerProvider()
	group := func(key string) string { return key[:7] }
	meters := func() *sdkmetric.MeterProvider {
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	}
	return map[string]*otellock.Options{
		"metrics":                {MeterProvider: meters(), TracerProvider: noop.NewTracerProvider()},
		"groups":                 {MeterProvider: meters(), TracerProvider: noop.NewTracerProvider(), Group: group},
		"spans without sampling": {MeterProvider: meters(), TracerProvider: never},
		"spans":                  {MeterProvider: meters(), TracerProvider: always},
	}
}

// TestObserver_allocations checks that metrics allocate no memory.
func TestObserver_allocations(t *testing.T) {
	for name, opt := range providers(t) {
		if _, off := opt.TracerProvider.(noop.TracerProvider); !off {
			continue
		}
		observe, err := otellock.New(opt)
		if err != nil {
			t.Fatal(err)
		}
		for _, life := range lives {
			got := testing.AllocsPerRun(100, func() { play(context.Background(), observe, life.events) })
			if got > 0 {
				t.Errorf("%s, %s: %v allocations", name, life.name, got)
			}
		}
	}
}

// BenchmarkObserver measures the events of one pair, one handed-off lock and one renewal.
func BenchmarkObserver(b *testing.B) {
	for name, opt := range providers(b) {
		observe, err := otellock.New(opt)
		if err != nil {
			b.Fatal(err)
		}
		for _, life := range lives {
			b.Run(name+"/"+life.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					play(context.Background(), observe, life.events)
				}
			})
		}
	}
}

// BenchmarkPair acquires and releases a free lock in memory, with and without an observer.
func BenchmarkPair(b *testing.B) {
	run := func(name string, opts ...distlock.Option) {
		b.Run(name, func(b *testing.B) {
			l, err := distlock.New(mem.New(), opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close(context.Background())
			b.ReportAllocs()
			for b.Loop() {
				lease, err := l.Lock(context.Background(), "invoice/42")
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Unlock(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("unobserved")
	for name, opt := range providers(b) {
		observe, err := otellock.New(opt)
		if err != nil {
			b.Fatal(err)
		}
		run(name, distlock.Observe(observe))
	}
}
