package main

import (
	"encoding/json"
	"fmt"
)

// A benchResult is the result of bench.
type benchResult struct {
	Seconds                 float64
	Clients                 int
	Trip                    string // the call that was measured as a round trip
	RoundTrip, Pair, WakeUp latency
	Rate, Contended         throughput
}

func (b *bench) print(f *benchResult) error {
	if b.asJSON {
		e := json.NewEncoder(b.out)
		e.SetIndent("", "  ")
		return e.Encode(newBenchJSON(b.redact(b.store), f))
	}
	w, plain := b.out, plainText()
	fmt.Fprintf(w, "bench of %s for %v\n\n", b.redact(b.store), b.time)
	fmt.Fprintf(w, "  %-22s %8s %8s %8s %8s %9s\n", "", "p50", "p90", "p99", "worst", "count")
	row := func(what string, l latency) {
		fmt.Fprintf(w, "  %-22s %8s %8s %8s %8s %9d\n", what,
			brief(l.P50, plain), brief(l.P90, plain), brief(l.P99, plain), brief(l.Most, plain), l.Count)
	}
	row("round trip", f.RoundTrip)
	row("lock and unlock", f.Pair)
	row("unlock to next holder", f.WakeUp)
	fmt.Fprintf(w, "\n  lock and unlock take as long as %.1f round trips; a round trip is %s\n\n",
		f.Pair.RoundTrips, f.Trip)
	fmt.Fprintf(w, "  %-32s %9.0f a second\n", fmt.Sprintf("%d clients, a name each", f.Clients), f.Rate.PerSecond)
	fmt.Fprintf(w, "  %-32s %9.0f a second, fairness %.2f of 1\n\n",
		fmt.Sprintf("%d clients, one name", f.Clients), f.Contended.PerSecond, f.Contended.Fairness)
	fmt.Fprintln(w, "  lock and unlock of a free name:")
	draw(w, f.Pair.Buckets, width(b.out), plain)
	_, err := fmt.Fprintln(w)
	return err
}

// A benchJSON is the JSON output of bench. Times are in seconds.
type benchJSON struct {
	Store     string         `json:"store"`
	Time      float64        `json:"time"`
	Clients   int            `json:"clients"`
	Trip      string         `json:"trip"` // the call that was measured as a round trip
	RoundTrip latencyJSON    `json:"roundTrip"`
	Pair      latencyJSON    `json:"pair"`
	WakeUp    latencyJSON    `json:"wakeUp"`
	Rate      throughputJSON `json:"rate"`
	Contended throughputJSON `json:"contended"`
}

type latencyJSON struct {
	Count      int          `json:"count"`
	P50        float64      `json:"p50"`
	P90        float64      `json:"p90"`
	P99        float64      `json:"p99"`
	Worst      float64      `json:"worst"`
	RoundTrips float64      `json:"roundTrips,omitempty"`
	Buckets    []bucketJSON `json:"buckets"`
}

type bucketJSON struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
}

type throughputJSON struct {
	Count     int     `json:"count"`
	PerSecond float64 `json:"perSecond"`
	Fairness  float64 `json:"fairness"`
}

func newBenchJSON(store string, f *benchResult) benchJSON {
	return benchJSON{
		store, f.Seconds, f.Clients, f.Trip,
		newLatencyJSON(f.RoundTrip), newLatencyJSON(f.Pair), newLatencyJSON(f.WakeUp),
		throughputJSON(f.Rate), throughputJSON(f.Contended),
	}
}

func newLatencyJSON(l latency) latencyJSON {
	out := latencyJSON{l.Count, l.P50.Seconds(), l.P90.Seconds(), l.P99.Seconds(), l.Most.Seconds(), l.RoundTrips, nil}
	for _, b := range l.Buckets {
		out.Buckets = append(out.Buckets, bucketJSON{b.From.Seconds(), b.To.Seconds(), b.Count})
	}
	return out
}
