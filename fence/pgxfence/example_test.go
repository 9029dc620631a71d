package pgxfence_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/pgxfence"
)

// connect opens the database that the environment names.
func connect(ctx context.Context) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	return pool
}

// lease stands for a *distlock.Lease.
func lease(name string) fence.Lease {
	p, err := fence.New(name, 128)
	if err != nil {
		panic(err)
	}
	return p
}

func ExampleRow_Update() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	// alter table invoice add column fence bigint not null default 0
	err := pgxfence.Row{Table: "invoice"}.Update(ctx, pool, lease("invoice/42"), 42, "paid = $1", true)
	if errors.Is(err, fence.ErrStale) {
		fmt.Println("somebody else has held the lock since:", err)
	}
}

func ExampleTable_Ensure() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	fmt.Println(pgxfence.Table{}.Ensure(ctx, pool))
}

func ExampleTable_Do() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	err := pgxfence.Table{}.Do(ctx, pool, lease("ledger"), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into entry values ('paid 42')")
		return err
	})
	fmt.Println(err)
}

func ExampleTable_Advance() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := (pgxfence.Table{}).Advance(ctx, tx, lease("ledger")); err != nil { // before anything else
			return err
		}
		_, err := tx.Exec(ctx, "insert into entry values ('paid 42')")
		return err
	})
	fmt.Println(err)
}

func ExampleTable_Register() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	register := pgxfence.Table{}.Register(pool) // for fence.Middleware
	fmt.Println(register.Advance(ctx, lease("invoice/42")))
}

func ExampleTable_Sweep() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	yesterday := uint64(1763191200000000) // a fence that was recorded a day ago
	n, err := pgxfence.Table{}.Sweep(ctx, pool, yesterday)
	fmt.Println(n, err)
}

func ExampleOnce() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	receipt, err := pgxfence.Once(ctx, pool, pgxfence.Table{}, lease("pay/42"), func(tx pgx.Tx) (string, error) {
		_, err := tx.Exec(ctx, "insert into entry values ('paid 42')")
		return "no. 1", err
	})
	fmt.Println(receipt, err)
}

func ExampleRecord() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// ... the work, in the same transaction, and then:
		return pgxfence.Record(ctx, tx, pgxfence.Table{}, lease("pay/42"), "no. 1")
	})
	fmt.Println(err)
}

func ExampleRecorded() {
	ctx := context.Background()
	pool := connect(ctx)
	defer pool.Close()
	receipt, ok, err := pgxfence.Recorded[string](ctx, pool, pgxfence.Table{}, "pay/42")
	fmt.Println(receipt, ok, err)
}
