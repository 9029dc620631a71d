package mysql_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
)

// BenchmarkPair acquires and releases a free key: with two plain prepared statements, and with the
// store.
func BenchmarkPair(b *testing.B) {
	url := testenv.MariaDB(b, testenv.Shared()).Database(b)
	db := database(b, url)
	db.SetMaxIdleConns(16)
	if _, err := db.Exec(`CREATE TABLE raw (name VARBINARY(512) PRIMARY KEY, owner VARBINARY(64) NOT NULL, fence BIGINT NOT NULL,
		holder VARBINARY(255), meta BLOB, ends DATETIME(6) NOT NULL) ENGINE=InnoDB`); err != nil {
		b.Fatal(err)
	}
	insert, err := db.Prepare(`INSERT INTO raw VALUES (?, ?, 1, ?, '{}', SYSDATE(6) + INTERVAL ? SECOND) ON DUPLICATE KEY UPDATE
		fence = IF(ends <= SYSDATE(6), fence + 1, fence), holder = IF(ends <= SYSDATE(6), VALUES(holder), holder),
		meta = IF(ends <= SYSDATE(6), VALUES(meta), meta), owner = IF(ends <= SYSDATE(6), VALUES(owner), owner),
		ends = IF(ends <= SYSDATE(6), VALUES(ends), ends) RETURNING owner, fence`)
	if err != nil {
		b.Fatal(err)
	}
	defer insert.Close()
	remove, err := db.Prepare("DELETE FROM raw WHERE name = ? AND owner = ?")
	if err != nil {
		b.Fatal(err)
	}
	defer remove.Close()
	s := made(b, url, nil)
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint("raw/", n), func(b *testing.B) {
			pairs(b, n, func(i int64) error {
				key, owner := fmt.Sprint("key", i%64), rand.Text()
				var who string
				var fence int64
				if err := insert.QueryRow([]byte(key), owner, "holder", 60).Scan(&who, &fence); err != nil {
					return err
				}
				_, err := remove.Exec([]byte(key), owner)
				return err
			})
		})
		b.Run(fmt.Sprint("store/", n), func(b *testing.B) {
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

// BenchmarkRenewAll renews 1,000 claims in one statement.
func BenchmarkRenewAll(b *testing.B) {
	s := made(b, testenv.MariaDB(b, testenv.Shared()).Database(b), nil)
	var all []driver.Renewal
	for i := range 1000 {
		r := exclusive(fmt.Sprint("key", i))
		grant(b, s, r)
		all = append(all, driver.Renewal{ID: r.ID, TTL: time.Minute})
	}
	for b.Loop() {
		for _, r := range s.RenewAll(b.Context(), all) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

// BenchmarkHandOff releases a key in one store, and waits for the pushed grant in another. The
// median is its metric.
func BenchmarkHandOff(b *testing.B) {
	url := testenv.MariaDB(b, testenv.Shared()).Database(b)
	s, other := made(b, url, nil), made(b, url, nil)
	var took []time.Duration
	for b.Loop() {
		a, w := exclusive("key"), queueing(exclusive("key"))
		grant(b, s, a)
		ctx, cancel := context.WithCancel(b.Context())
		wake := other.Watch(ctx, w.ID)
		refuse(b, other, w)
		time.Sleep(time.Duration(mathrand.N(int64(30 * time.Millisecond))))
		began := time.Now()
		release(b, s, a)
		for !(<-wake).Granted {
		}
		took = append(took, time.Since(began))
		cancel()
		release(b, other, w)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
}

// BenchmarkStore measures what drivertest measures of every store.
func BenchmarkStore(b *testing.B) {
	e := env(b)
	db := database(b, testenv.MariaDB(b, testenv.Shared()).URL)
	e.Ping = db.PingContext
	drivertest.Bench(b, e)
}

// pairs runs n goroutines. Each has keys of its own.
func pairs(b *testing.B, n int, pair func(i int64) error) {
	if err := pair(0); err != nil {
		b.Fatal(err)
	}
	var i atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range int64(n) {
		wg.Go(func() {
			for {
				k := i.Add(1)
				if k > int64(b.N) {
					return
				}
				if err := pair(16*(k%4) + w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
