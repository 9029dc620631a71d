package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/sqlite"
)

// rawPair returns the minimum that a lock in SQLite costs: a transaction that inserts a row, and
// one that deletes it.
func rawPair(b *testing.B, full bool) func() {
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "raw.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	level := "normal"
	if full {
		level = "full"
	}
	for _, q := range []string{
		"pragma journal_mode = wal", "pragma synchronous = " + level,
		"create table lock (name blob primary key, owner blob, ends integer) without rowid",
	} {
		if _, err := db.Exec(q); err != nil {
			b.Fatal(err)
		}
	}
	conn, err := db.Conn(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	var stmts []*sql.Stmt
	for _, q := range []string{
		"begin immediate", "insert into lock values (?, ?, ?)", "delete from lock where name = ? and owner = ?", "commit",
	} {
		st, err := conn.PrepareContext(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		stmts = append(stmts, st)
	}
	name, owner := []byte("name"), []byte("0123456789ABCDEFGHIJKLMNOP")
	run := func(st *sql.Stmt, args ...any) {
		if _, err := st.ExecContext(context.Background(), args...); err != nil {
			b.Fatal(err)
		}
	}
	return func() {
		run(stmts[0])
		run(stmts[1], name, owner, time.Now().UnixNano())
		run(stmts[3])
		run(stmts[0])
		run(stmts[2], name, owner)
		run(stmts[3])
	}
}

// BenchmarkPair alternates acquire and release with the raw pair, so that both have the same noise.
func BenchmarkPair(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run("full="+strconv.FormatBool(full), func(b *testing.B) {
			raw := rawPair(b, full)
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "locks.db"),
				&sqlite.Options{Full: full})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			ctx := context.Background()
			n := 0
			ours := func() {
				n++
				r := driver.Request{
					ID:     driver.ID{Key: "name", Owner: "0123456789ABCDEFGHIJ" + strconv.Itoa(100000+n)},
					Weight: driver.Whole, Limit: driver.Whole, TTL: 10 * time.Second, Holder: "bench@host",
				}
				if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
					b.Fatal(res, err)
				}
				if err := s.Release(ctx, r.ID); err != nil {
					b.Fatal(err)
				}
			}
			var raws, pairs []time.Duration
			for b.Loop() {
				t0 := time.Now()
				raw()
				t1 := time.Now()
				ours()
				raws, pairs = append(raws, t1.Sub(t0)), append(pairs, time.Since(t1))
			}
			b.ReportMetric(median(raws), "us/raw")
			b.ReportMetric(median(pairs), "us/pair")
			b.ReportMetric(median(raws)/median(pairs), "rate/raw")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// median returns the median in microseconds, which ignores outliers.
func median(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Nanoseconds()) / 1000
}
