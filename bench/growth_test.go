package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

var memory = backend{"memory", func(func(func())) (driver.Store, error) { return mem.New(), nil }}

// A point that takes too long is bounded and reported. Larger sizes are not tried.
func TestGrow_notDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{ctx: t.Context(), rounds: 3, limit: 20 * time.Second, out: io.Discard}
		var tried []int
		g := growing{measure: func(ctx context.Context, _ *bench, _ driver.Store, n int) (time.Duration, error) {
			tried = append(tried, n)
			if n >= 1000 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return time.Duration(n) * time.Millisecond, nil
		}}
		began := time.Now()
		got, err := b.grow("title", g, []backend{memory})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("took %v, want one limit", took)
		}
		if want := []int{10, 100, 1000, 10, 100, 10, 100}; !equal(tried, want) {
			t.Errorf("sizes %v, want %v", tried, want)
		}
		if want := []float64{0.01, 0.1, math.Inf(1), math.Inf(1), math.Inf(1), 10}; !equal(got.Rows[0].Values, want) {
			t.Errorf("%v, want %v", got.Rows[0].Values, want)
		}
	})
}

// A grant with 4,000 waiters may take half as long again as with 100, and on Redis also with
// 10,000.
func TestFlat(t *testing.T) {
	sizes := []float64{10, 100, 4000, 10_000}
	goals := flat(table{Rows: []row{
		{"Redis", []float64{9, 2, 3, 3.5}}, {"SQLite", []float64{9, 2, math.Inf(1), math.Inf(1)}},
	}}, sizes)
	var got []bool
	for _, g := range goals {
		got = append(got, g.Reached)
	}
	if want := []bool{true, false, false}; !slices.Equal(got, want) {
		t.Errorf("%v of %v, want %v", got, goals, want)
	}
	if goals := flat(table{Rows: []row{{"Redis", []float64{1}}}}, []float64{10}); len(goals) > 0 {
		t.Errorf("a quick run has the goals %v", goals)
	}
}

func equal[T int | float64](a, b []T) bool {
	for i := range a {
		if len(a) != len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestGrow_error(t *testing.T) {
	b := &bench{ctx: t.Context(), rounds: 1, limit: time.Minute, out: io.Discard}
	broken := errors.New("broken")
	g := growing{measure: func(context.Context, *bench, driver.Store, int) (time.Duration, error) { return 0, broken }}
	if _, err := b.grow("title", g, []backend{memory}); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

// Every operation works with many others around it.
func TestGrowings(t *testing.T) {
	b := &bench{ctx: t.Context(), rounds: 1, each: time.Millisecond, limit: time.Minute, quick: true, out: io.Discard}
	for _, g := range growings() {
		for _, n := range []int{1, 200} {
			d, err := b.point(g, memory, n)
			if err != nil || d <= 0 || d > time.Second {
				t.Errorf("%s: %d: %v, %v", g.title, n, d, err)
			}
		}
	}
}

// The claims must be in the store, under the name that the operation uses.
func TestClaimMany_taken(t *testing.T) {
	s := mem.New()
	key := func(int) string { return "name" }
	if _, err := claimMany(t.Context(), s, 2, driver.Whole, driver.Whole, key); !errors.Is(err, errTaken) {
		t.Errorf("%v, want %v", err, errTaken)
	}
	b := &bench{ctx: t.Context(), rounds: 1, each: time.Millisecond, limit: time.Minute, out: io.Discard}
	if _, err := claimMany(t.Context(), s, 1, driver.Whole, driver.Whole, func(int) string { return "other" }); err != nil {
		t.Fatal(err)
	}
	if _, err := oneMoreReader(t.Context(), b, s, 1); !errors.Is(err, errTaken) {
		t.Errorf("readers of a name that is held: %v, want %v", err, errTaken)
	}
	if _, err := lastPermit(t.Context(), b, s, 3); err != nil {
		t.Error(err)
	}
	if _, err := lastPermit(t.Context(), b, s, 4); err == nil || !strings.Contains(err.Error(), "held") {
		t.Errorf("5 permits of 4: %v", err)
	}
}
