package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/postgres"
)

func ExampleOpen() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, "postgres://app:secret@db/app?sslmode=verify-full")
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
	fmt.Println("the fence is", lease.Fence())
}

// A command that takes one lock and ends.
func ExampleStore_Brief() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, "postgres://app@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	s.Brief() // it waits with one connection
	locker, err := distlock.New(s)
	if err != nil {
		log.Fatal(err)
	}
	if err := locker.Do(ctx, "nightly", func(context.Context) error { return nil }); err != nil {
		log.Fatal(err)
	}
}

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	s, err := postgres.New(pool, &postgres.Options{Schema: "locks"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

func ExampleStore_Close() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
	if err != nil {
		log.Fatal(err)
	}
	s, err := postgres.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Close())
	pool.Close() // the store's own connections came from its configuration
	_, err = s.Acquire(ctx, driver.Request{
		ID: driver.ID{Key: "key", Owner: "secret"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// driver: store unavailable: the store is closed
}

func ExampleStore_Migrate() {
	ctx := context.Background()
	s, err := postgres.Open(ctx, "postgres://admin@db/app?lock_migrate=false")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	from, to, err := s.Migrate(ctx)
	var newer *postgres.SchemaError
	if errors.As(err, &newer) {
		log.Fatal("this program is too old: ", newer)
	}
	fmt.Println("from version", from, "to", to)
}

func ExampleMigration() {
	sql, err := postgres.Migration("locks")
	fmt.Println(strings.Contains(sql, `create table "locks".claim (`), err)
	// Output: true <nil>
}

func ExampleSchemaError() {
	var err error = &postgres.SchemaError{Schema: "distlock", Have: 3, Want: 1}
	fmt.Println(err)
	fmt.Println(errors.Is(err, driver.ErrUnavailable))
	// Output:
	// postgres: the schema "distlock" has version 3, and this program knows 1: use a newer program
	// true
}

func ExampleSchemaError_Finding() {
	err := &postgres.SchemaError{Schema: "distlock", Have: 3, Want: 1}
	f := err.Finding()
	fmt.Println(f.What)
	fmt.Println(f.Cure)
	// Output:
	// the schema "distlock" has version 3, and this program knows 1
	// use a newer program
}
