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
		"redis": {Date: "2026-01-02", Machine: "2 cores, x", Load: "1.50", Rounds: 7, Each: "500ms", Versions: map[string]string{"Redis": "7.0"}, Tables: []table{
			{Title: "Redis, free key", Columns: []column{p50, ratio}, Rows: []row{
				{"raw: SET", []float64{50e-6, 1}}, {"distlock", []float64{100e-6, 2}}, {"redislock, polls every 1 ms", []float64{80e-6, 1.6}},
			}, Goals: []goal{atMost("p50", 2, 1.4)}},
			{Title: "one key", Columns: []column{perSecond, ratio}, Rows: []row{
				{"a channel", []float64{2e6, 0}}, {"distlock", []float64{300_000, 0}}, {"redsync, polls", []float64{3000, 0}},
			}, Goals: []goal{atLeast("rate", 100, 30), below("worst", 5*time.Millisecond, time.Second)}},
			{Title: "the link is cut", Columns: []column{{"runs", ""}, worst}, Rows: []row{
				{"distlock", []float64{20, -0.103}}, {"rueidislock, 1 key", []float64{5, 0.501}},
			}},
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
		"| Redis, free key | 100 \u00b5s | 2.00 | **1.25** |  |  |  |  |  |  |",
		"| one key | 300,000/s | 6.67 |  |  | 0.01 |  |  |  |  |",
		"| Redis, free key | p50: at most 1.4 | 2 | **no** |",
		"| one key | rate: at least 30<br>worst: under 1s | 100<br>5ms | yes<br>yes |",
		"- Redis, free key: p50: 2 (goal: at most 1.4); redislock is 1.25 times as fast. The others have no fencing token.",
		"| two holders after a cut link, at worst; below zero: never | -103 ms |  |  |  |  | 501 ms |  |  |  |  |",
		"| waiters | 1.00 ms; 1.10 | 1.00 ms; 100 not done in 20 s | 1.00 \u00b5s; 4.00 |",
		"- waiters: SQLite 100 not done in 20 s; memory 4.00 times as long at 100 as at 10.",
		"**The machine was busy (load 1.5 on 2 cores before the run)",
		"![waiters](img/growth-waiters.svg)",
		"Not measured yet: core, redlock, postgres, etcd, mysql, sqlite, locks, cli, server.",
		"| redis | 2026-01-02 | 1.50 | 7 of 500ms |",
		"Redis 7.0.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for _, not := range []string{"| not a comparison |", "Redis 100", "one key: "} {
		if strings.Contains(got, not) {
			t.Errorf("%q is in the page", not)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestDuration(t *testing.T) {
	for v, want := range map[float64]string{
		1.5e-9: "1.50 ns", 0.3e-9: "0.30 ns", 64.51e-6: "64.5 \u00b5s", 999.9e-6: "1.00 ms", 0.1234: "123 ms", 12.34: "12.3 s", 1234: "1234 s", -0.103: "-103 ms",
	} {
		if got := duration(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
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
	if n := strings.Count(want, "\n"); n > 210 { // all eleven suites were measured
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
