package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// wellFormed fails the test if a text is not one XML document.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
}

func TestChart(t *testing.T) {
	c := chart{"A & B", "waiters", "time", []float64{10, 100, 1000, 10_000}, []line{
		{"flat", []float64{1e-3, 1e-3, 1e-3, 1e-3}},
		{"<grows>", []float64{1e-6, 1e-5, 1e-4, math.Inf(1)}},
		{"gap", []float64{1e-6, math.NaN(), 1e-6, 1e-6}},
	}, "20 s"}
	got := c.svg()
	wellFormed(t, got)
	for _, want := range []string{
		`fill="#fff"`, "A &amp; B", "&lt;grows&gt;", ">waiters (log scale)<", ">time (log scale)<",
		">10<", ">100<", ">1,000<", ">10,000<", // sizes
		">1 \u00b5s<", ">10 \u00b5s<", ">100 \u00b5s<", ">1 ms<", // decades, from the least to the largest value
		`d="M92 70L240 70L388 70L536 70M572 70h24"`, // the flat line, at the top, and its entry in the legend
		`d="M92 318L240 235.3L388 152.7M572 94h24"`, // a decade for each size; the last point was not done
		`d="M92 318L388 318L536 318M572 118h24"`,    // a value is missing
		`<circle cx="92" cy="70" r="4.5"/><circle cx="240" cy="70" r="4.5"/>`, `<circle cx="584" cy="70" r="4.5"/></g>`,
		`<rect x="240" y="235.3" width="9"`, `translate(536 318)"/><path`,
		"not done in 20 s",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if n := strings.Count(got, "\u00d7"); n != 2 {
		t.Errorf("%d crosses, want one at its size and one in the legend", n)
	}
	if strings.Contains(got, "10 ms") || strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
		t.Errorf("a text that must not be there in %s", got)
	}
}

func TestChart_nothing(t *testing.T) {
	c := chart{"t", "x", "y", []float64{10}, []line{{"a", []float64{math.Inf(1)}}}, "20 s"}
	got := c.svg()
	wellFormed(t, got)
	if strings.Contains(got, "NaN") || !strings.Contains(got, "not done in 20 s") {
		t.Error(got)
	}
}

func TestDots(t *testing.T) {
	d := dots{"Speed", "times", []string{"a", "b & c"}, []dotRow{
		{"first", []float64{1, math.NaN()}},
		{"second", []float64{0.01, 10}},
	}}
	got := d.svg()
	wellFormed(t, got)
	for _, want := range []string{
		">0.01<", ">0.1<", ">1<", ">10<", ">first<", ">second<", "b &amp; c", ">times<",
		`<circle cx="377.3" cy="78" r="4.5"/>`,  // 1, two thirds of the way from 36 to 548
		`<circle cx="36" cy="114" r="4.5"/>`,    // 0.01, at the left end
		`<rect x="548" y="114" width="9"`,       // 10, at the right end
		`<path d="M377.3 52V124" stroke="#222"`, // the line of distlock
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, ">0.001<") {
		t.Error(got)
	}
}

func TestDecade(t *testing.T) {
	for d, want := range map[int]string{-9: "1 ns", -7: "100 ns", -6: "1 \u00b5s", -4: "100 \u00b5s", -3: "1 ms", 0: "1 s", 3: "1,000 s"} {
		if got := decade(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}

// Each marker of a plot looks different.
func TestMark(t *testing.T) {
	seen := map[string]int{}
	for i := range 2 * len(colours) {
		var s strings.Builder
		mark(&s, i, 1, 2)
		if other, ok := seen[s.String()]; ok {
			t.Errorf("the markers %d and %d are the same: %s", other, i, s.String())
		}
		seen[s.String()] = i
		wellFormed(t, s.String())
	}
}
