package pgadvisory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/pgadvisory"
)

func ExampleOpen() {
	ctx := context.Background()
	s, err := pgadvisory.Open(ctx, "postgres://app:secret@db/app?sslmode=verify-full&lock_conns=2")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	locker, err := distlock.New(s)
	if err != nil {
		log.Fatal(err)
	}
	lease, err := locker.Lock(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
}

func ExampleNew() {
	ctx := context.Background()
	config, err := pgx.ParseConfig("postgres://app:secret@db/app")
	if err != nil {
		log.Fatal(err)
	}
	s, err := pgadvisory.New(ctx, config, &pgadvisory.Options{Conns: 2, Waits: -1})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

func ExampleStore_Created() {
	s, err := pgadvisory.Open(context.Background(), "postgres://app:secret@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if s.Created() {
		log.Print("this is a new database: fences begin at the first number")
	}
}

func ExampleKey() {
	fmt.Println(pgadvisory.Key("nightly"))
	// Output: 3043134503785307926
}

func ExampleMigration() {
	fmt.Print(pgadvisory.Migration(""))
	// Output:
	// create schema if not exists "distlock";
	// create sequence if not exists "distlock"."advisory_fence" as bigint minvalue 1 maxvalue 70368744177663 cache 1 no cycle;
}

func ExampleTryLockTx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://app:secret@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		fence, granted, err := pgadvisory.TryLockTx(ctx, tx, "nightly", nil)
		if err != nil || !granted {
			return err // another process does the work
		}
		_, err = tx.Exec(ctx, "update report set made = now(), fence = $1 where fence <= $1", fence)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleLockTx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "postgres://app:secret@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local lock_timeout = '5s'"); err != nil {
			return err
		}
		_, err := pgadvisory.LockTx(ctx, tx, "nightly", &pgadvisory.TxOptions{Shared: true})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleStore_Losses() {
	ctx := context.Background()
	s, err := pgadvisory.Open(ctx, "postgres://app:secret@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, id := range <-s.Losses(ctx) { // a connection has ended
		log.Println("lost", id.Key)
	}
}

func ExampleStore_Close() {
	s, err := pgadvisory.Open(context.Background(), "postgres://app:secret@db/app")
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Close(); err != nil { // every lock of this store is free
		log.Fatal(err)
	}
}
