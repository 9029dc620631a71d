package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// A chart is a plot of lines, with two logarithmic axes. X is a number, and Y is a time in seconds.
type chart struct {
	title, x, y string
	sizes       []float64
	lines       []line
	limit       string // of a point, for the points that were not done
}

// A line has a value for each size. NaN means that there is none, and +Inf that it was not done.
type line struct {
	name   string
	values []float64
}

// The size of a chart, and of the area inside its axes, in pixels.
const (
	chartWidth, chartHeight   = 760, 380
	left, right, top, bottom  = 76, 560, 52, 318
	legendX, legendY, legendD = 584, 70, 24
)

// The colours differ for colour-blind readers too, and each line has its own marker.
var (
	colours = []string{"#c1440e", "#0060a8", "#00795a", "#555555", "#9a4c95", "#a87900", "#111111"}
	markers = []string{
		`<circle cx="%[1]s" cy="%[2]s" r="4.5"/>`,
		`<rect x="%[1]s" y="%[2]s" width="9" height="9" transform="translate(-4.5 -4.5)"/>`,
		`<path d="M0 -5.5L5.5 4.5L-5.5 4.5Z" transform="translate(%[1]s %[2]s)"/>`,
		`<path d="M0 -6L6 0L0 6L-6 0Z" transform="translate(%[1]s %[2]s)"/>`,
		`<path d="M0 5.5L5.5 -4.5L-5.5 -4.5Z" transform="translate(%[1]s %[2]s)"/>`,
		`<path d="M-5.5 -2L5.5 -2L5.5 2L-5.5 2Z" transform="translate(%[1]s %[2]s)"/>`,
		`<path d="M-2 -6L2 -6L2 6L-2 6Z" transform="translate(%[1]s %[2]s)"/>`,
	}
)

// An axis maps the decades from low to high to pixels.
type axis struct{ low, high, from, to float64 }

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// svg returns the chart as an SVG document.
func (c chart) svg() string {
	var s strings.Builder
	x, y := c.axes()
	begin(&s, c.title, left, chartHeight)
	c.grid(&s, x, y)
	missing := false
	for i, l := range c.lines {
		missing = c.draw(&s, x, y, i, l) || missing
	}
	if missing {
		at := legendY + float64(len(c.lines))*legendD
		text(&s, legendX-5, at+4, `font-weight="bold"`, "\u00d7")
		text(&s, legendX+16, at+4, "", "not done in "+c.limit)
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// axes returns axes whose ends are powers of ten around all values.
func (c chart) axes() (x, y axis) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range c.lines {
		for _, v := range l.values {
			if v > 0 && !math.IsInf(v, 0) {
				low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
			}
		}
	}
	if low > high { // nothing was done
		low, high = -6, -3
	}
	first, last := math.Log10(c.sizes[0]), math.Log10(c.sizes[len(c.sizes)-1])
	return axis{first, max(last, first+1), left + 16, right - 24}, axis{low, max(high, low+1), bottom, top + 18}
}

// grid draws the axes, their labels and the lines of the grid.
func (c chart) grid(s *strings.Builder, x, y axis) {
	fmt.Fprintf(s, `<path d="M%d %dV%dH%d" fill="none" stroke="#444"/>`+"\n", left, top, bottom, right)
	for d := y.low; d <= y.high; d++ {
		at := y.at(math.Pow(10, d))
		fmt.Fprintf(s, `<path d="M%d %sH%d" stroke="#ddd"/>`, left, px(at), right)
		text(s, left-8, at+4, `text-anchor="end"`, decade(int(d)))
	}
	for _, n := range c.sizes {
		at := x.at(n)
		fmt.Fprintf(s, `<path d="M%s %dv5" stroke="#444"/>`, px(at), bottom)
		text(s, at, bottom+20, `text-anchor="middle"`, thousands(n))
	}
	text(s, (left+right)/2, bottom+44, `text-anchor="middle"`, c.x+" (log scale)")
	text(s, 0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(18 %d) rotate(-90)"`, (top+bottom)/2), c.y+" (log scale)")
}

// draw draws a line and its entry in the legend. It reports whether a point was not done: such a
// point is a cross at the top.
func (c chart) draw(s *strings.Builder, x, y axis, i int, l line) (missing bool) {
	colour, marker := colours[i%len(colours)], markers[i%len(markers)]
	var path, marks strings.Builder
	for k, v := range l.values {
		at := x.at(c.sizes[k])
		switch {
		case math.IsInf(v, 1):
			missing = true
			text(s, at+float64(i-len(c.lines)/2)*11, top+8, fmt.Sprintf(`text-anchor="middle" font-weight="bold" style="fill:%s"`, colour), "\u00d7")
		case v > 0:
			fmt.Fprintf(&path, "%s%s %s", map[bool]string{true: "M", false: "L"}[path.Len() == 0], px(at), px(y.at(v)))
			fmt.Fprintf(&marks, marker, px(at), px(y.at(v)))
		}
	}
	row := legendY + float64(i)*legendD
	fmt.Fprintf(&path, "M%d %sh24", legendX-12, px(row))
	fmt.Fprintf(&marks, marker, px(legendX), px(row))
	fmt.Fprintf(s, `<g fill="%s"><path d="%s" fill="none" stroke="%[1]s" stroke-width="2"/>%[3]s</g>`+"\n", colour, path.String(), marks.String())
	text(s, legendX+20, row+4, "", l.name)
	return missing
}

func text(s *strings.Builder, x, y float64, attributes, content string) {
	fmt.Fprintf(s, `<text x="%s" y="%s" %s>%s</text>`+"\n", px(x), px(y), attributes, html.EscapeString(content))
}

// px returns a coordinate with a tenth of a pixel.
func px(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// decade returns a power of ten of a second as a text: 100 ms.
func decade(d int) string {
	for _, u := range []struct {
		from int
		unit string
	}{{0, "s"}, {-3, "ms"}, {-6, "\u00b5s"}, {-9, "ns"}} {
		if d >= u.from {
			return thousands(math.Pow(10, float64(d-u.from))) + " " + u.unit
		}
	}
	return fmt.Sprintf("1e%d s", d)
}

// thousands returns a whole number with commas: 10,000.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
