package pgadvisory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/pgadvisory"
)

// BenchmarkPair compares a lock and unlock of the store with the plain statements on one
// connection, alternately. It reports the medians.
func BenchmarkPair(b *testing.B) {
	pg := testenv.Postgres(b, testenv.Shared())
	url := pg.Database(b)
	s := opened(b, url)
	c, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(b.Context())
	raw := func() {
		var ok bool
		var fence int64
		n := pgadvisory.Key("raw")
		if err := c.QueryRow(b.Context(), "select pg_try_advisory_lock($1), nextval('distlock.advisory_fence')", n).Scan(&ok, &fence); err != nil || !ok {
			b.Fatal(ok, err)
		}
		if err := c.QueryRow(b.Context(), "select pg_advisory_unlock($1)", n).Scan(&ok); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
	ours := func() {
		r := exclusive("ours", 30*time.Second)
		if res, err := s.Acquire(b.Context(), r); err != nil || !res.Granted {
			b.Fatal(res, err)
		}
		if err := s.Release(b.Context(), driver.ID{Key: r.Key, Owner: r.Owner}); err != nil {
			b.Fatal(err)
		}
	}
	var spans [2][]time.Duration
	for range 100 {
		raw()
		ours()
	}
	b.ReportAllocs()
	for b.Loop() {
		for i, f := range []func(){raw, ours} {
			began := time.Now()
			f()
			spans[i] = append(spans[i], time.Since(began))
		}
	}
	for i, name := range []string{"raw-us/pair", "ours-us/pair"} {
		slices.Sort(spans[i])
		b.ReportMetric(float64(spans[i][len(spans[i])/2].Nanoseconds())/1e3, name)
	}
}
