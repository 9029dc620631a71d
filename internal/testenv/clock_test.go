package testenv_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// The time of day of a server is set while the server runs. Its other clocks do not change.
func TestClock(t *testing.T) {
	t.Parallel()
	near := func(t *testing.T, what string, seconds string, ahead time.Duration) {
		t.Helper()
		s, err := strconv.ParseFloat(seconds, 64)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(time.UnixMicro(int64(s*1e6))) - ahead; off.Abs() > 10*time.Second {
			t.Errorf("%s: off by %v", what, off)
		}
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := testenv.Redis(t, testenv.AOF())
		do := func(args ...string) any {
			t.Helper()
			v, err := r.Do(t.Context(), args...)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		do("SET", "a", "1")
		c := testenv.NewClock(t, r.Server)
		if do("GET", "a") != "1" {
			t.Error("the data is gone")
		}
		do("SET", "b", "1", "EX", "30")
		for _, ahead := range []time.Duration{0, -time.Hour, time.Minute} {
			c.Set(ahead)
			near(t, "TIME", fmt.Sprint(do("TIME").([]any)[0]), ahead)
			near(t, "TIME in a script", fmt.Sprint(do("EVAL", "return redis.call('TIME')[1]", "0")), ahead)
		}
		if v := do("GET", "b"); v != nil {
			t.Errorf("%v for a key that expired half a minute ago", v)
		}
		if up, err := strconv.Atoi(r.Info(t.Context(), "uptime_in_seconds")); err != nil || up < 0 {
			t.Error(up, err)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := testenv.Postgres(t)
		c := testenv.NewClock(t, p.Server)
		for _, ahead := range []time.Duration{0, -time.Hour, time.Minute} {
			c.Set(ahead)
			rows, err := p.Query(t.Context(), "select extract(epoch from clock_timestamp())")
			if err != nil {
				t.Fatal(err)
			}
			near(t, "clock_timestamp", rows[0][0], ahead)
		}
	})
}
