package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBuckets(t *testing.T) {
	us := time.Microsecond
	got := buckets(times{3 * us, 4 * us, 5 * us, 50 * us})
	want := []bucket{{2 * us, 5 * us, 2}, {5 * us, 10 * us, 1}, {10 * us, 20 * us, 0}, {20 * us, 50 * us, 0}, {50 * us, 100 * us, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := buckets(times{0, 99}); !slices.Equal(got, []bucket{{0, 100, 2}}) {
		t.Error(got)
	}
	if got := buckets(nil); got != nil {
		t.Error(got)
	}
}

func TestDraw(t *testing.T) {
	all := []bucket{
		{20 * time.Microsecond, 50 * time.Microsecond, 800},
		{50 * time.Microsecond, 100 * time.Microsecond, 100},
		{time.Second, 2 * time.Second, 0},
		{2 * time.Second, 5 * time.Second, 1},
	}
	for _, tt := range []struct {
		width int
		plain bool
		want  string
	}{
		{51, false, `
      20µs to 50µs ████████████████      800  88.8%
     50µs to 100µs ██                    100  11.1%
          1s to 2s                         0   0.0%
          2s to 5s ▏                       1   0.1%
`},
		{51, true, `
      20us to 50us ################      800  88.8%
     50us to 100us ##                    100  11.1%
          1s to 2s                         0   0.0%
          2s to 5s .                       1   0.1%
`},
		{10, false, `
      20µs to 50µs ████████      800  88.8%
     50µs to 100µs █             100  11.1%
          1s to 2s                 0   0.0%
          2s to 5s ▏               1   0.1%
`},
	} {
		var out bytes.Buffer
		draw(&out, all, tt.width, tt.plain)
		if got := "\n" + out.String(); got != tt.want {
			t.Errorf("width %d, plain %v:%s, want%s", tt.width, tt.plain, got, tt.want)
		}
		for line := range strings.Lines(out.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > max(tt.width, 43) {
				t.Errorf("a line has %d characters: %q", n, line)
			}
		}
	}
}

func TestBarOf(t *testing.T) {
	for length, want := range map[float64]string{0: "", .01: "▏", .5: "▌", 1: "█", 1.875: "█▉", 1.99: "██"} {
		if got := barOf(length, false); got != want {
			t.Errorf("%v: %q, want %q", length, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 60: "60ns", 999: "999ns", 1234: "1.23µs", 123456: "123µs", 12345678: "12.3ms",
		1234567890: "1.23s", 100 * time.Second: "1m40s",
	} {
		if got := brief(d, false); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

func TestLatency(t *testing.T) {
	all := make(times, 1000)
	for i := range all {
		all[i] = time.Duration(1000 - i)
	}
	l := newLatency(all)
	if l.P50 != 500 || l.P90 != 900 || l.P99 != 990 || l.Most != 1000 || l.Count != 1000 {
		t.Errorf("%+v", l)
	}
	// take measures at least once, even if the time has passed. An error ends it.
	if err := l.take(time.Time{}, func() (time.Duration, error) { return 7, nil }); err != nil || l.Count != 1 || l.P99 != 7 {
		t.Error(l, err)
	}
	if err := l.take(time.Now().Add(time.Hour), func() (time.Duration, error) { return 0, io.EOF }); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestThroughput(t *testing.T) {
	for _, tt := range []struct {
		counts []int
		want   throughput
	}{
		{[]int{5, 5}, throughput{10, 5, 1}},
		{[]int{10, 0, 0, 0}, throughput{10, 5, .25}},
		{[]int{0, 0}, throughput{}},
	} {
		if got := newThroughput(tt.counts, 2*time.Second); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.counts, got, tt.want)
		}
	}
}
