package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// A bench is one call of bench.
type bench struct {
	*app
	time        time.Duration
	clients     int
	yes, asJSON bool
	store       string
	prefix      string
}

func (a *app) bench() *cobra.Command {
	b := &bench{app: a}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the latency and throughput of locks in a store",
		Long: `Measure how long a lock takes in your own store: a free name, a contended name, and the delay
between a release and the next grant. bench uses names of its own. It compares the times with a
round trip, a call that changes nothing; the output says which call.`,
		Example: "  distlock bench --store memory: --time 1s\n  distlock bench --store redis://localhost --clients 16",
		Args:    exact(),
		RunE:    func(c *cobra.Command, _ []string) error { return b.main(c) },
	}
	f := c.Flags()
	f.DurationVar(&b.time, "time", 5*time.Second, "how long to measure, in total")
	f.IntVar(&b.clients, "clients", 8, "the number of clients that contend")
	f.BoolVar(&b.asJSON, "json", false, "print one JSON object")
	f.BoolVar(&b.yes, "yes", false, "skip the confirmation for a store that is not on this host")
	return c
}

func (b *bench) main(c *cobra.Command) error {
	var err error
	if b.store, err = b.address(c); err != nil {
		return err
	}
	switch {
	case b.time < 100*time.Millisecond || b.time > 24*time.Hour:
		return usage("--time is %v, want 100ms to 24h", b.time)
	case b.clients < 1 || b.clients > 10_000:
		return usage("--clients is %d, want 1 to 10000", b.clients)
	}
	if err := b.confirmLoad(c.Context(), b.store, "bench", b.yes); err != nil {
		return err
	}
	l, err := b.connect(c.Context(), b.store)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	if err := reach(ctx, l); err != nil {
		return err
	}
	b.prefix = ownPrefix("bench")
	m := &measure{store: b.source.Store, far: b.source.Store, prefix: b.prefix, clients: b.clients}
	if b.source.TTL > 0 {
		m.ttl = b.source.TTL
	}
	if !private(b.store) { // the wake-up must go through the store, not through one client's memory
		far, err := b.open(ctx, b.store)
		if err != nil {
			return &exitError{exitUnavailable, err}
		}
		defer far.Close()
		m.far = far.Store
	}
	found, err := b.measure(ctx, m)
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return b.print(found)
}

// measure runs each measurement for its share of the time.
func (b *bench) measure(ctx context.Context, m *measure) (*benchResult, error) {
	parts := []struct {
		name  string
		share float64
		run   func(ctx context.Context, until time.Time, found *benchResult) error
	}{
		{"round trips", .15, m.roundTrips},
		{"a free name", .3, m.pairs},
		{fmt.Sprintf("%d clients, a name each", m.clients), .2, m.rate},
		{fmt.Sprintf("%d clients, one name", m.clients), .2, m.contended},
		{"waking a waiter", .15, m.wakes},
	}
	found := &benchResult{Seconds: b.time.Seconds(), Clients: b.clients}
	began := time.Now()
	for _, p := range parts {
		stop := b.showProgress(func() string {
			return fmt.Sprintf("bench %v of %v: %s", short(time.Since(began)), b.time, p.name)
		})
		err := p.run(ctx, time.Now().Add(time.Duration(p.share*float64(b.time))), found)
		stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	found.Pair.RoundTrips = float64(found.Pair.P50) / float64(found.RoundTrip.P50)
	return found, nil
}
