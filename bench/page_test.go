package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample() map[string]record {
	return map[string]record{
		"redis": {Date: "2026-01-02", Machine: "2 cores", Load: "0.10", Rounds: 7, Each: "500ms", Versions: map[string]string{"Redis": "7.0"}, Tables: []table{
			{Title: "Redis, free key", Columns: []column{p50, ratio}, Rows: []row{
				{"raw: SET", []float64{50e-6, 1}}, {"distlock", []float64{100e-6, 2}}, {"redislock, polls every 1 ms", []float64{80e-6, 1.6}},
			}, Goals: []goal{atMost("p50", 2, 1.4)}},
			{Title: "one key", Columns: []column{perSecond, ratio}, Rows: []row{
				{"a channel", []float64{2e6, 0}}, {"distlock", []float64{300_000, 0}}, {"redsync, polls", []float64{3000, 0}},
			}, Goals: []goal{atLeast("rate", 100, 30)}},
			{Title: "not a comparison", Columns: []column{{"value", ""}}, Rows: []row{{"lost", []float64{0}}, {"distlock", []float64{0}}}},
		}},
		"growth": {Rounds: 3, Tables: []table{{
			Title: "growth: waiters", Columns: []column{{"10", "s"}, {"100", "s"}, {"growth", "x"}},
			Rows: []row{
				{"Redis", []float64{1e-3, 1.1e-3, 1.1}}, {"SQLite", []float64{1e-3, math.Inf(1), math.NaN()}}, {"memory", []float64{1e-6, 4e-6, 4}},
			},
			Growth: &growth{"growth-waiters", "waiters", "time", []float64{10, 100}, 20 * time.Second},
		}}},
	}
}

func TestRender(t *testing.T) {
	got, err := render(sample())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Redis, free key | 100\u00b5s | 2 | **1.2** |  |  |  |  |  |",
		"| one key | 300,000/s | 6.7 |  |  | 0.01 |  |  |  |",
		"| Redis, free key | p50 at most 1.4 | 2 | **no** |",
		"| one key | rate at least 30 | 100 | yes |",
		"- Redis, free key: the goal is p50 at most 1.4, and the result is 2. The others have no fencing token.",
		"- Redis, free key: redislock is 1.2 times as fast.",
		"| waiters | 1ms; 1.1 | 1ms; 100 not done in 20 s | 1\u00b5s; 4 |",
		"- waiters, SQLite: 100 not done in 20 s.",
		"- waiters, memory: 4 times as long at 100 as at 10.",
		"![waiters](img/growth-waiters.svg)",
		"Not measured yet: core, redlock, postgres, sqlite, cli.",
		"| redis | 2026-01-02 | 0.10 | 7 of 500ms |",
		"Redis 7.0.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for _, not := range []string{"| not a comparison |", "waiters, Redis", "one key: "} {
		if strings.Contains(got, not) {
			t.Errorf("%q is in the page", not)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// Results that are read from the file are those that were kept, and the other suites stay.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	c := config{results: filepath.Join(dir, "results.json"), document: filepath.Join(dir, "page.md"), images: filepath.Join(dir, "img")}
	if err := c.keep("core", record{Date: "old"}); err != nil {
		t.Fatal(err)
	}
	for name, r := range sample() {
		if err := c.keep(name, r); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readResults(c.results)
	if err != nil || len(all) != 3 || all["core"].Date != "old" {
		t.Fatalf("%v, %v", all, err)
	}
	delete(all, "core")
	want, _ := render(sample())
	if got, err := render(all); err != nil || got != want {
		t.Errorf("the page of results that were read differs: %v\n%s", err, got)
	}
	if err := c.writePage(); err != nil {
		t.Fatal(err)
	}
	if svg, err := os.ReadFile(filepath.Join(c.images, "growth-waiters.svg")); err != nil || string(svg) != plots(sample())["growth-waiters.svg"] {
		t.Errorf("the plot: %v", err)
	}
	if err := os.WriteFile(c.results, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readResults(c.results); err == nil || !strings.Contains(err.Error(), c.results) {
		t.Errorf("a broken file: %v", err)
	}
}

// The page in docs is made of the results, and stays short.
func TestPage_current(t *testing.T) {
	all, err := readResults("results.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(all)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil || string(got) != want {
		t.Errorf("docs/benchmarks.md is not made of results.json (%v): cd bench && go run . page", err)
	}
	if n := strings.Count(want, "\n"); n > 170 {
		t.Errorf("the page has %d lines", n)
	}
	for file, svg := range plots(all) {
		got, err := os.ReadFile(filepath.Join("../docs/img", file))
		if err != nil || string(got) != svg {
			t.Errorf("docs/img/%s is not made of results.json (%v): cd bench && go run . page", file, err)
		}
		if len(svg) > 30_000 {
			t.Errorf("docs/img/%s has %d bytes", file, len(svg))
		}
		wellFormed(t, svg)
	}
}
