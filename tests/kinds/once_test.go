package kinds_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func keeps(f driver.Features) bool { return f.Keep && f.Value }

// Three processes with four callers each request the same result. The function runs once, and all
// callers get its result.
func TestOnce(t *testing.T) {
	t.Parallel()
	onEach(t, keeps, func(t *testing.T, url string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
		defer cancel()
		large := strings.Repeat("x", 60<<10)
		var runs atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			o, err := distlock.NewOnce[string](locker(t, url), time.Hour, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 4 {
				wg.Go(func() {
					v, err := o.Do(ctx, "a", func(context.Context) (string, error) {
						runs.Add(1)
						time.Sleep(100 * time.Millisecond)
						return large, nil
					})
					if v != large || err != nil {
						t.Errorf("%d bytes, %v", len(v), err)
					}
				})
			}
		}
		began := time.Now()
		wg.Wait()
		t.Logf("all twelve callers had the result after %v", time.Since(began).Round(time.Millisecond))
		if n := runs.Load(); n != 1 {
			t.Errorf("the function ran %d times", n)
		}
	})
}

func TestOnce_forgets(t *testing.T) {
	t.Parallel()
	onEach(t, keeps, func(t *testing.T, url string) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
		defer cancel()
		l := locker(t, url)
		kept := max(500*time.Millisecond, store(t, url).Features().MinTTL)
		o, err := distlock.NewOnce(l, kept,
			&distlock.OnceOptions[int]{Failures: func(error) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		fail := func(context.Context) (int, error) { return 0, errors.New("no") }
		var past *distlock.PastError
		for {
			done := time.Now()
			if _, err := o.Do(ctx, "a", fail); err == nil {
				t.Error("it did not fail")
			}
			_, found, err := o.Result(ctx, "a")
			if !found && err == nil && time.Since(done) > kept && ctx.Err() == nil {
				continue // the record expired during a scheduler stall
			}
			if !found || !errors.As(err, &past) || past.Text != "no" {
				t.Errorf("the record: %v, %v", found, err)
			}
			break
		}
		began := time.Now()
		for {
			v, err := o.Do(ctx, "a", func(context.Context) (int, error) { return 2, nil })
			if err == nil && v == 2 {
				break
			}
			if !errors.As(err, &past) || time.Since(began) > soon/2 {
				t.Fatalf("%v, %v after %v", v, err, time.Since(began))
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// A majority and advisory locks keep no records. The constructor returns an error.
func TestOnce_refused(t *testing.T) {
	t.Parallel()
	onEach(t, func(f driver.Features) bool { return !keeps(f) }, func(t *testing.T, url string) {
		l := locker(t, url)
		_, err := distlock.NewOnce[int](l, time.Hour, nil)
		if name := store(t, url).Features().Name; !errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(err.Error(), "store "+name) {
			t.Errorf("store %s: %v", name, err)
		}
	})
}
