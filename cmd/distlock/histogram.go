package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A bucket counts the times from From up to but not including To.
type bucket struct {
	From, To time.Duration
	Count    int
}

// buckets sorts times into buckets whose bounds are 1, 2 and 5 times a power of ten. The times must
// be sorted. There are no empty buckets at the ends.
func buckets(all times) []bucket {
	var out []bucket
	from, steps := time.Duration(0), []time.Duration{1, 2, 5}
	unit, i := time.Duration(100), 0 // 100 ns: no call takes less
	for n := 0; n < len(all); i++ {
		if i == len(steps) {
			i, unit = 0, unit*10
		}
		b := bucket{From: from, To: unit * steps[i]}
		for n < len(all) && all[n] < b.To {
			n++
			b.Count++
		}
		if from = b.To; b.Count > 0 || len(out) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// draw prints buckets as bars, in lines of this width.
func draw(w io.Writer, all []bucket, width int, plain bool) {
	most, sum := 0, 0
	for _, b := range all {
		most, sum = max(most, b.Count), sum+b.Count
	}
	const labels = 35 // the width of the text before and after a bar
	longest := max(width-labels, 8)
	for _, b := range all {
		label := fmt.Sprintf("%s to %s", brief(b.From, plain), brief(b.To, plain))
		bar := barOf(float64(b.Count)/float64(most)*float64(longest), plain)
		pad := strings.Repeat(" ", longest-len([]rune(bar)))
		fmt.Fprintf(w, "  %16s %s%s %8d %5.1f%%\n", label, bar, pad, b.Count, 100*float64(b.Count)/float64(sum))
	}
}

// barOf returns a bar of this length. A length above zero is always visible.
func barOf(length float64, plain bool) string {
	if plain {
		n := int(length + .5)
		if n == 0 && length > 0 {
			return "."
		}
		return strings.Repeat("#", n)
	}
	eighths := int(length*8 + .5)
	if eighths == 0 && length > 0 {
		eighths = 1
	}
	bar := strings.Repeat("█", eighths/8)
	if remainder := eighths % 8; remainder > 0 {
		bar += string([]rune(" ▏▎▍▌▋▊▉")[remainder])
	}
	return bar
}

// brief rounds a time to three digits.
func brief(d time.Duration, plain bool) string {
	for unit := time.Duration(1); unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			d = d.Round(unit)
			break
		}
	}
	s := d.String()
	if plain {
		s = strings.ReplaceAll(s, "µ", "u")
	}
	return s
}
