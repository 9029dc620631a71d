package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
)

// BenchmarkPair acquires and releases a free key: with two plain statements on one connection per
// goroutine, and with the store.
func BenchmarkPair(b *testing.B) {
	srv := testenv.Postgres(b, testenv.Shared())
	table := "raw_" + rand.Text()[:8]
	query(b, srv, "create table "+table+" (key text primary key, owner text not null, fence bigint not null, holder text, meta jsonb, ends timestamptz not null)")
	b.Cleanup(func() { query(b, srv, "drop table "+table) })
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint("raw/", n), func(b *testing.B) {
			conns := make(chan *pgx.Conn, n)
			for range n {
				c, err := pgx.Connect(b.Context(), srv.URL)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close(context.Background())
				conns <- c
			}
			pairs(b, n, func(i int64) error {
				c := <-conns
				defer func() { conns <- c }()
				key, owner := fmt.Sprint("key", i%64), rand.Text()
				_, err := c.Exec(b.Context(), "insert into "+table+` values ($1, $2, 1, $3, '{}', clock_timestamp() + $4) on conflict (key) do update set
					owner = excluded.owner, fence = `+table+`.fence + 1, holder = excluded.holder, meta = excluded.meta, ends = excluded.ends
					where `+table+`.ends <= clock_timestamp()`, key, owner, "holder", time.Minute)
				if err == nil {
					_, err = c.Exec(b.Context(), "delete from "+table+" where key = $1 and owner = $2", key, owner)
				}
				return err
			})
		})
		b.Run(fmt.Sprint("store/", n), func(b *testing.B) {
			s := made(b, srv.URL, fresh(b))
			pairs(b, n, func(i int64) error {
				r := driver.Request{ID: driver.ID{Key: fmt.Sprint("key", i%64), Owner: rand.Text()},
					Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, Holder: "holder"}
				if _, err := s.Acquire(b.Context(), r); err != nil {
					return err
				}
				return s.Release(b.Context(), r.ID)
			})
		})
	}
}

// BenchmarkStore measures what drivertest measures of every store.
func BenchmarkStore(b *testing.B) {
	e := env()
	srv := testenv.Postgres(b, testenv.Shared())
	c, err := pgx.Connect(b.Context(), srv.URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close(context.Background()) })
	e.Ping = func(ctx context.Context) error { return c.Ping(ctx) }
	drivertest.Bench(b, e)
}

func pairs(b *testing.B, n int, pair func(i int64) error) {
	if err := pair(0); err != nil {
		b.Fatal(err)
	}
	var i atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Go(func() {
			for {
				k := i.Add(1)
				if k > int64(b.N) {
					return
				}
				if err := pair(k); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
