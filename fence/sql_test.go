package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/store/mem"
)

// marks returns the placeholders of a text for set.
func marks(style fence.Placeholders, dollar, question string) string {
	if style != fence.Dollar {
		return question
	}
	return dollar
}

func TestRow(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		ctx, db := t.Context(), s.open(t)
		run(t, db, "create table invoice (id integer primary key, paid integer, note text, fence bigint not null default 0)")
		run(t, db, "insert into invoice (id, paid) values (42, 0)")
		row := fence.Row{Table: "invoice", Placeholders: style}
		set := marks(style, "paid = $1, note = $2", "paid = ?, note = ?")
		update := func(n uint64, paid int) error {
			return row.Update(ctx, db, proof(t, "invoice/42", n), 42, set, paid, "by hand")
		}
		want := func(paid int, highest uint64) {
			t.Helper()
			var p int
			var f uint64
			must(t, db.QueryRowContext(ctx, "select paid, fence from invoice where id = 42").Scan(&p, &f))
			if p != paid || f != highest {
				t.Errorf("paid %d by fence %d, want %d by %d", p, f, paid, highest)
			}
		}
		t.Run("a higher fence and the same one again", func(t *testing.T) {
			must(t, update(9, 1))
			must(t, update(9, 2))
			want(2, 9)
		})
		t.Run("integers", func(t *testing.T) {
			must(t, update(10, 3)) // less as a text
			wantStale(t, update(9, 4), 9, 10)
			must(t, update(1<<53-2, 5))
			must(t, update(1<<53-1, 6)) // the same as a short float
			wantStale(t, update(1<<53-2, 7), 1<<53-2, 1<<53-1)
			want(6, 1<<53-1)
		})
		t.Run("nothing but the fence", func(t *testing.T) {
			must(t, row.Update(ctx, db, proof(t, "invoice/42", 1<<53-1), 42, ""))
			want(6, 1<<53-1)
		})
		t.Run("no such row", func(t *testing.T) {
			err := row.Update(ctx, db, proof(t, "invoice/43", 9), 43, set, 1, "")
			if !errors.Is(err, sql.ErrNoRows) || errors.Is(err, fence.ErrStale) {
				t.Errorf("%v, want ErrNoRows", err)
			}
		})
		t.Run("in a transaction", func(t *testing.T) {
			tx, err := db.BeginTx(ctx, nil)
			must(t, err)
			defer tx.Rollback()
			wantStale(t, row.Update(ctx, tx, proof(t, "invoice/42", 1), 42, ""), 1, 1<<53-1)
			must(t, tx.Rollback())
		})
	})
}

func TestRow_refuses(t *testing.T) {
	t.Parallel()
	db := sqliteFile(t).open(t)
	run(t, db, "create table t (id integer, fence bigint)")
	run(t, db, "insert into t values (1, null), (2, 5), (2, 5)")
	ctx, good := t.Context(), proof(t, "a", 7)
	for _, row := range []fence.Row{
		{}, {Table: "t; drop table t"}, {Table: "t", Key: "id = 1 or id"}, {Table: "t", Column: "fence--"}, {Table: "t."}, {Table: `"t`},
	} {
		if err := row.Update(ctx, db, good, 2, ""); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", row, err)
		}
	}
	for _, l := range []fence.Lease{nil, (*distlock.Lease)(nil), fence.Proof{}} {
		if err := (fence.Row{Table: "t"}).Update(ctx, db, l, 2, ""); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%#v: %v, want ErrInvalid", l, err)
		}
	}
	if err := (fence.Row{Table: "t"}).Update(ctx, db, good, 1, ""); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("a fence that is null: %v, want an error that says so", err)
	}
	if err := (fence.Row{Table: `main."t"`, Key: "id"}).Update(ctx, db, good, 2, ""); err == nil {
		t.Error("two rows of one key: no error")
	}
}

// A column of the wrong type must not make 9 more than 10.
func TestRow_text(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		ctx, db := t.Context(), s.open(t)
		run(t, db, "create table t (id integer primary key, fence text not null default '0')")
		run(t, db, "insert into t (id, fence) values (1, '9')")
		row := fence.Row{Table: "t", Placeholders: style}
		err := row.Update(ctx, db, proof(t, "a", 10), 1, "")
		if s.driver == "pgx" {
			if err == nil || errors.Is(err, fence.ErrStale) {
				t.Fatalf("%v, want PostgreSQL to refuse the comparison", err)
			}
			return
		}
		must(t, err)
		wantStale(t, row.Update(ctx, db, proof(t, "a", 9), 1, ""), 9, 10)
	})
}

func TestTable(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		whole, ctx, db := t, t.Context(), s.open(t)
		table := fence.Table{Placeholders: style}
		must(t, table.Ensure(ctx, db))
		must(t, table.Ensure(ctx, db))
		run(t, db, "create table note (text text)")
		write := func(n uint64, text string) error {
			return table.Do(ctx, db, proof(t, "notes", n), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "insert into note values ('"+text+"')")
				return err
			})
		}
		have := 0
		want := func(added int) { // a subtest may run alone
			t.Helper()
			before := have
			must(t, db.QueryRowContext(ctx, "select count(*) from note").Scan(&have))
			if have != before+added {
				t.Errorf("%d notes were added, want %d", have-before, added)
			}
		}
		t.Run("a higher fence and the same one again", func(t *testing.T) {
			must(t, write(9, "a"))
			must(t, write(9, "b"))
			want(2)
		})
		t.Run("integers", func(t *testing.T) {
			must(t, write(10, "c"))
			wantStale(t, write(9, "d"), 9, 10)
			must(t, write(1<<53-2, "e"))
			must(t, write(1<<53-1, "f"))
			wantStale(t, write(1<<53-2, "g"), 1<<53-2, 1<<53-1)
			want(3)
		})
		t.Run("separate keys", func(t *testing.T) {
			must(t, table.Do(ctx, db, proof(t, "Notes", 1), func(*sql.Tx) error { return nil }))
		})
		t.Run("rolled back", func(t *testing.T) {
			mine, p := errors.New("mine"), proof(t, "other", 20)
			err := table.Do(ctx, db, p, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "insert into note values ('x')")
				must(t, err)
				return mine
			})
			if !errors.Is(err, mine) {
				t.Errorf("%v, want the error of the function", err)
			}
			want(0)
			must(t, table.Do(ctx, db, proof(t, "other", 19), func(*sql.Tx) error { return nil })) // 20 was never committed
		})
		t.Run("after a restart", func(t *testing.T) {
			must(t, db.Close())
			db = s.open(whole)
			wantStale(t, write(10, "h"), 10, 1<<53-1)
		})
		t.Run("swept", func(t *testing.T) {
			n, err := table.Sweep(ctx, db, 1000)
			if n != 2 || err != nil {
				t.Errorf("%d swept, %v, want 2", n, err)
			}
			wantStale(t, write(10, "h"), 10, 1<<53-1)
		})
	})
}

func TestTable_refuses(t *testing.T) {
	t.Parallel()
	db, bad := sqliteFile(t).open(t), fence.Table{Name: "a b"}
	ctx := t.Context()
	_, swept := fence.Table{}.Sweep(ctx, db, 1<<53)
	_, _, read := fence.Recorded[int](ctx, db, bad, "a")
	for what, err := range map[string]error{
		"name": bad.Ensure(ctx, db), "read": read, "bound": swept, "no lease": fence.Table{}.Register(db).Advance(ctx, nil),
		"do": bad.Do(ctx, db, proof(t, "a", 1), func(*sql.Tx) error { t.Error("it ran"); return nil }),
	} {
		if !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if err := (fence.Table{}).Register(db).Advance(ctx, proof(t, "a", 1)); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("without the table: %v, want an error of the database", err)
	}
}

func TestTable_Ensure_together(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		var wg sync.WaitGroup
		for range 10 {
			db := s.open(t)
			wg.Go(func() {
				if err := (fence.Table{Placeholders: style}).Ensure(t.Context(), db); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// The transaction of the next holder waits for that of the last one, which has passed the guard:
// the last holder cannot write after the next.
func TestTable_Advance_waits(t *testing.T) {
	ctx, db := t.Context(), postgresBase(t).open(t)
	table := fence.Table{}
	must(t, table.Ensure(ctx, db))
	old, err := db.BeginTx(ctx, nil)
	must(t, err)
	defer old.Rollback()
	must(t, table.Advance(ctx, old, proof(t, "a", 5)))
	next := make(chan error, 1)
	go func() {
		next <- table.Do(ctx, db, proof(t, "a", 6), func(*sql.Tx) error { return nil })
	}()
	for waiting := 0; waiting == 0; { // until the server reports a waiting transaction
		must(t, db.QueryRowContext(ctx, "select count(*) from pg_locks where not granted").Scan(&waiting))
		select {
		case err := <-next:
			t.Fatalf("fence 6 passed during a transaction of fence 5: %v", err)
		default:
		}
	}
	must(t, old.Commit())
	must(t, <-next)
}

type receipt struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
}

func TestOnce(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		ctx, db := t.Context(), s.open(t)
		table := fence.Table{Placeholders: style}
		must(t, table.Ensure(ctx, db))
		run(t, db, "create table charge (amount integer)")
		charge := func(n uint64, fail error) (receipt, error) {
			return fence.Once(ctx, db, table, proof(t, "charge/42", n), func(tx *sql.Tx) (receipt, error) {
				_, err := tx.ExecContext(ctx, "insert into charge values (7)")
				must(t, err)
				return receipt{int(n), "é\x00"}, fail
			})
		}
		if _, ok, err := fence.Recorded[receipt](ctx, db, table, "charge/42"); ok || err != nil {
			t.Fatalf("recorded before it was done: %v, %v", ok, err)
		}
		lost := errors.New("lost on the way")
		if _, err := charge(10, lost); !errors.Is(err, lost) {
			t.Fatal(err)
		}
		must(t, table.Do(ctx, db, proof(t, "charge/42", 11), func(*sql.Tx) error { return nil }))
		_, err := charge(10, nil)
		wantStale(t, err, 10, 11)
		for _, n := range []uint64{12, 12, 13, 10} { // 10 is stale, and still gets the result
			if got, err := charge(n, nil); err != nil || got != (receipt{12, "é\x00"}) {
				t.Errorf("fence %d: %+v, %v, want the result of 12", n, got, err)
			}
		}
		if got, ok, err := fence.Recorded[receipt](ctx, db, table, "charge/42"); got.Number != 12 || !ok || err != nil {
			t.Errorf("recorded: %+v, %v, %v", got, ok, err)
		}
		var rows int
		must(t, db.QueryRowContext(ctx, "select count(*) from charge").Scan(&rows))
		if rows != 1 {
			t.Errorf("%d charges, want 1", rows)
		}
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		defer tx.Rollback()
		if err := fence.Record(ctx, tx, table, proof(t, "charge/42", 20), 1); !errors.Is(err, fence.ErrRecorded) {
			t.Errorf("recorded twice: %v, want ErrRecorded", err)
		}
		must(t, tx.Rollback())
		if _, _, err := fence.Recorded[int](ctx, db, table, "charge/42"); err == nil {
			t.Error("a result of another type was read")
		}
	})
}

func TestRecord_refuses(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		ctx, db := t.Context(), s.open(t)
		table := fence.Table{Placeholders: style}
		must(t, table.Ensure(ctx, db))
		must(t, table.Do(ctx, db, proof(t, "a", 10), func(*sql.Tx) error { return nil }))
		record := func(table fence.Table, l fence.Lease, result any) error {
			tx, err := db.BeginTx(ctx, nil)
			must(t, err)
			defer tx.Rollback()
			return fence.Record(ctx, tx, table, l, result)
		}
		wantStale(t, record(table, proof(t, "a", 9), 1), 9, 10)
		for what, err := range map[string]error{
			"no lease": record(table, nil, 1), "name": record(fence.Table{Name: "a b"}, proof(t, "a", 10), 1),
		} {
			if !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", what, err)
			}
		}
		for what, err := range map[string]error{
			"no JSON":  record(table, proof(t, "a", 10), make(chan int)),
			"no table": record(fence.Table{Name: "none", Placeholders: style}, proof(t, "a", 10), 1),
		} {
			if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrRecorded) {
				t.Errorf("%s: %v, want another error", what, err)
			}
		}
	})
}

// A transaction that fails in any way leaves nothing, and keeps no connection.
func TestTable_Do_fails(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		ctx, db := t.Context(), s.open(t)
		db.SetMaxOpenConns(1)
		table := fence.Table{Placeholders: style}
		must(t, table.Ensure(ctx, db))
		p := proof(t, "a", 10)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			table.Do(ctx, db, p, func(*sql.Tx) error { panic("mine") })
		}()
		must(t, table.Do(ctx, db, proof(t, "a", 9), func(*sql.Tx) error { return nil })) // 10 was never committed
		if err := table.Do(ctx, db, p, func(tx *sql.Tx) error { return tx.Rollback() }); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("rolled back inside: %v, want ErrTxDone", err)
		}
		ended, cancel := context.WithCancel(ctx)
		err := table.Do(ended, db, p, func(*sql.Tx) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("ctx ended before the commit: %v", err)
		}
		must(t, table.Do(ctx, db, proof(t, "a", 9), func(*sql.Tx) error { return nil }))
		must(t, db.Close())
		if err := table.Do(ctx, db, p, func(*sql.Tx) error { t.Error("it ran"); return nil }); err == nil {
			t.Error("a closed database: no error")
		}
		if _, err := table.Sweep(ctx, db, 1); err == nil {
			t.Error("a closed database was swept")
		}
		if err := table.Ensure(ctx, db); err == nil {
			t.Error("a closed database has the table")
		}
	})
}

// Even where the lock fails and many hold it, the changes of the transaction are made once.
func TestOnce_together(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		ctx, db := t.Context(), s.open(t)
		table := fence.Table{Placeholders: style}
		must(t, table.Ensure(ctx, db))
		run(t, db, "create table charge (amount integer)")
		var wg sync.WaitGroup
		got := make([]int, 10)
		for i := range got {
			wg.Go(func() {
				var err error
				got[i], err = fence.Once(ctx, db, table, proof(t, "charge", 5), func(tx *sql.Tx) (int, error) {
					_, err := tx.ExecContext(ctx, "insert into charge values (7)")
					return i + 1, err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		var rows int
		must(t, db.QueryRowContext(ctx, "select count(*) from charge").Scan(&rows))
		if rows != 1 {
			t.Errorf("%d charges, want 1", rows)
		}
		for _, n := range got {
			if n == 0 || n != got[0] {
				t.Fatalf("results %v, want one for all", got)
			}
		}
	})
}

// Fifty goroutines count under a lock, and the counter checks their fences: none is refused, no
// count is lost.
func TestRow_count(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		const goroutines, rounds = 50, 4
		ctx, db := t.Context(), s.open(t)
		run(t, db, "create table counter (id integer primary key, n integer not null, fence bigint not null default 0)")
		run(t, db, "insert into counter (id, n) values (1, 0)")
		locker, err := distlock.New(mem.New())
		must(t, err)
		defer locker.Close(context.WithoutCancel(ctx))
		row := fence.Row{Table: "counter", Placeholders: style}
		add := func(ctx context.Context) error {
			var n int
			if err := db.QueryRowContext(ctx, "select n from counter where id = 1").Scan(&n); err != nil {
				return err
			}
			return row.Update(ctx, db, distlock.FromContext(ctx), 1, marks(style, "n = $1", "n = ?"), n+1)
		}
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					if err := locker.Do(ctx, "counter/1", add); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var n int
		must(t, db.QueryRowContext(ctx, "select n from counter").Scan(&n))
		if n != goroutines*rounds {
			t.Errorf("counted %d, want %d", n, goroutines*rounds)
		}
	})
}
