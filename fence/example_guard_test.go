package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/store/mem"
)

// docs/fencing.md quotes the bodies of functions in the files of examples, and the examples run
// them.

// lock returns a lease. A program has one locker, on a store that its machines share.
func lock(name string) *distlock.Lease {
	locker, err := distlock.New(mem.New())
	if err != nil {
		panic(err)
	}
	lease, err := locker.Lock(context.Background(), name)
	if err != nil {
		panic(err)
	}
	return lease
}

// shop opens a small database of its own.
func shop() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1) // each connection would have its own database in memory
	for _, s := range []string{
		"create table invoice (id integer primary key, paid boolean not null default false, fence bigint not null default 0)",
		"insert into invoice (id) values (42)",
		"create table entry (text text)",
		"create table seat (id integer primary key, guest text not null, version integer not null)",
		"insert into seat values (7, '', 1)",
	} {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			panic(err)
		}
	}
	return db
}

// earlier returns the proof of an earlier holder of the lock.
func earlier(name string) fence.Proof {
	p, err := fence.New(name, 1)
	if err != nil {
		panic(err)
	}
	return p
}

func quoteSQL(ctx context.Context, db *sql.DB, lease interface{ Fence() uint64 }) error {
	res, err := db.ExecContext(ctx, "update invoice set paid = true, fence = $1 where id = 42 and fence <= $1", lease.Fence())
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return errors.New("somebody else has held the lock since")
	}
	return err
}

// The work of a guard, by hand.
func Example_byHand() {
	ctx, db := context.Background(), shop()
	defer db.Close()
	fmt.Println(quoteSQL(ctx, db, lock("invoice/42")))
	fmt.Println(quoteSQL(ctx, db, earlier("invoice/42")))
	// Output:
	// <nil>
	// somebody else has held the lock since
}

func quoteRow(ctx context.Context, db *sql.DB, lease fence.Lease) error {
	// alter table invoice add column fence bigint not null default 0
	invoices := fence.Row{Table: "invoice"}
	err := invoices.Update(ctx, db, lease, 42, "paid = $1", true)
	if errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("somebody else has held the lock since: %w", err)
	}
	return err
}

func ExampleRow_Update() {
	ctx, db := context.Background(), shop()
	defer db.Close()
	fmt.Println(quoteRow(ctx, db, lock("invoice/42")))
	err := quoteRow(ctx, db, earlier("invoice/42"))
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// true
}

func quoteTable(ctx context.Context, db *sql.DB, lease fence.Lease) error {
	var guard fence.Table // guard.Ensure creates it once
	return guard.Do(ctx, db, lease, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "insert into entry values ('paid 42')")
		return err
	})
}

func ExampleTable_Do() {
	ctx, db := context.Background(), shop()
	defer db.Close()
	if err := (fence.Table{}).Ensure(ctx, db); err != nil {
		panic(err)
	}
	fmt.Println(quoteTable(ctx, db, lock("ledger")))
	err := quoteTable(ctx, db, earlier("ledger"))
	fmt.Println(errors.Is(err, fence.ErrStale))
	// Output:
	// <nil>
	// true
}

func ExampleTable_Ensure() {
	ctx, db := context.Background(), shop()
	defer db.Close()
	fmt.Println(fence.Table{Name: "ledger_fence"}.Ensure(ctx, db))
	// Output: <nil>
}

func ExampleTable_Advance() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer tx.Rollback()
	if err := guard.Advance(ctx, tx, lock("ledger")); err != nil { // before anything else
		panic(err)
	}
	if _, err := tx.ExecContext(ctx, "insert into entry values ('paid 42')"); err != nil {
		panic(err)
	}
	fmt.Println(tx.Commit())
	// Output: <nil>
}

func ExampleTable_Sweep() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	if err := guard.Do(ctx, db, earlier("ledger"), func(*sql.Tx) error { return nil }); err != nil {
		panic(err)
	}
	yesterday := uint64(128) // a fence that was recorded a day ago
	n, err := guard.Sweep(ctx, db, yesterday)
	fmt.Println(n, err)
	// Output: 1 <nil>
}

type paid struct{ Receipt string }

func quoteOnce(ctx context.Context, db *sql.DB, guard fence.Table, lease fence.Lease) (paid, error) {
	return fence.Once(ctx, db, guard, lease, func(tx *sql.Tx) (paid, error) {
		_, err := tx.ExecContext(ctx, "insert into entry values ('paid 42')")
		return paid{Receipt: "no. 1"}, err
	})
}

func ExampleOnce() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	for range 2 {
		fmt.Println(quoteOnce(ctx, db, guard, lock("pay/42")))
	}
	var n int
	if err := db.QueryRowContext(ctx, "select count(*) from entry").Scan(&n); err != nil {
		panic(err)
	}
	fmt.Println("entries:", n)
	// Output:
	// {no. 1} <nil>
	// {no. 1} <nil>
	// entries: 1
}

func ExampleRecord() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		panic(err)
	}
	defer tx.Rollback()
	// ... the work, in the same transaction, and then:
	if err := fence.Record(ctx, tx, guard, lock("pay/42"), paid{"no. 1"}); err != nil {
		panic(err)
	}
	fmt.Println(tx.Commit())
	// Output: <nil>
}

func ExampleRecorded() {
	ctx, db, guard := context.Background(), shop(), fence.Table{}
	defer db.Close()
	if err := guard.Ensure(ctx, db); err != nil {
		panic(err)
	}
	if _, err := quoteOnce(ctx, db, guard, lock("pay/42")); err != nil {
		panic(err)
	}
	result, ok, err := fence.Recorded[paid](ctx, db, guard, "pay/42")
	fmt.Println(result.Receipt, ok, err)
	// Output: no. 1 true <nil>
}

func quoteUpdate(ctx context.Context, db *sql.DB, guest string) error {
	load := func(ctx context.Context) (seat string, version int, err error) {
		err = db.QueryRowContext(ctx, "select guest, version from seat where id = 7").Scan(&seat, &version)
		return seat, version, err
	}
	save := func(ctx context.Context, seat string, version int) (bool, error) {
		return affected(db.ExecContext(ctx, "update seat set guest = $1, version = version + 1 where id = 7 and version = $2", seat, version))
	}
	_, err := fence.Update(ctx, load, func(seat string) (string, error) {
		if seat != "" {
			return "", errors.New("taken by " + seat)
		}
		return guest, nil
	}, save, nil)
	return err
}

func ExampleUpdate() {
	ctx, db := context.Background(), shop()
	defer db.Close()
	fmt.Println(quoteUpdate(ctx, db, "Ann"))
	fmt.Println(quoteUpdate(ctx, db, "Bob"))
	// Output:
	// <nil>
	// taken by Ann
}
