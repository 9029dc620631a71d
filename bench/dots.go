package main

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// A dots is a plot of speeds relative to distlock: a row for each comparison, and a marker for each
// library.
type dots struct {
	title, x string
	names    []string // of the markers
	rows     []dotRow
}

// A dotRow has a value for each marker; NaN: none.
type dotRow struct {
	label  string
	values []float64
}

// The height of a row in pixels, and the left end of the axis.
const rowHeight, dotsLeft = 36, 24

// svg returns the plot as an SVG document.
func (d dots) svg() string {
	var s strings.Builder
	end := top + len(d.rows)*rowHeight
	begin(&s, d.title, dotsLeft, max(end+62, legendY+len(d.names)*legendD))
	x := d.axis()
	for e := x.low; e <= x.high; e++ {
		at, stroke := x.at(math.Pow(10, e)), "#ddd"
		if e == 0 {
			stroke = "#222"
		}
		fmt.Fprintf(&s, `<path d="M%s %dV%d" stroke="%s"/>`, px(at), top, end, stroke)
		text(&s, at, float64(end)+18, `text-anchor="middle"`, strconv.FormatFloat(math.Pow(10, e), 'f', -1, 64))
	}
	text(&s, (dotsLeft+right)/2, float64(end)+42, `text-anchor="middle"`, d.x)
	for i, r := range d.rows {
		y := float64(top + i*rowHeight)
		fmt.Fprintf(&s, `<path d="M%d %sH%d" stroke="#eee"/>`, dotsLeft, px(y+26), right)
		text(&s, dotsLeft+4, y+14, `font-size="12"`, r.label)
		for k, v := range r.values {
			if v > 0 {
				mark(&s, k, x.at(v), y+26)
			}
		}
	}
	for k, name := range d.names {
		mark(&s, k, legendX, legendY+float64(k)*legendD)
		text(&s, legendX+14, legendY+float64(k)*legendD+4, `font-size="12"`, name)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// axis returns an axis around all values and 1.
func (d dots) axis() axis {
	low, high := -1.0, 1.0
	for _, r := range d.rows {
		for _, v := range r.values {
			if v > 0 {
				low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
			}
		}
	}
	return axis{low, high, dotsLeft + 12, right - 12}
}

// begin writes the head of an SVG document with a light background and a title.
func begin(s *strings.Builder, title string, x float64, height int) {
	fmt.Fprintf(s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222">`+"\n",
		chartWidth, height)
	fmt.Fprintf(s, "<title>%s</title>\n", html.EscapeString(title))
	s.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	text(s, x, 28, `font-size="15" font-weight="bold"`, title)
}

// mark writes the i-th marker in its colour. When all markers are used, it writes them hollow.
func mark(s *strings.Builder, i int, x, y float64) {
	fill := colours[i%len(colours)]
	if i >= len(colours) {
		fill = `#fff" stroke-width="1.7" stroke="` + fill
	}
	fmt.Fprintf(s, `<g fill="%s">`, fill)
	fmt.Fprintf(s, markers[i%len(markers)], px(x), px(y))
	s.WriteString("</g>\n")
}
