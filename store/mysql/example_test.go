package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mysql"
)

func ExampleOpen() {
	ctx := context.Background()
	s, err := mysql.Open(ctx, "mysql://app:secret@db/app?tls=true")
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

func ExampleNew() {
	conf, err := client.ParseDSN("app:secret@tcp(db:3306)/app")
	if err != nil {
		log.Fatal(err)
	}
	s, err := mysql.New(conf, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

func ExampleStore_Close() {
	s, err := mysql.New(&client.Config{Net: "tcp", Addr: "db:3306", User: "app", DBName: "app"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Close())
	_, err = s.Acquire(context.Background(), driver.Request{
		ID: driver.ID{Key: "key", Owner: "secret"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute,
	})
	fmt.Println(err)
	// Output:
	// <nil>
	// driver: store unavailable: the store is closed
}

func ExampleStore_Migrate() {
	ctx := context.Background()
	s, err := mysql.Open(ctx, "mysql://admin:secret@db/app?lock_migrate=false")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	from, to, err := s.Migrate(ctx)
	var newer *mysql.SchemaError
	if errors.As(err, &newer) {
		log.Fatal("this program is too old: ", newer)
	}
	fmt.Println("from version", from, "to", to)
}

func ExampleMigration() {
	fmt.Println(strings.Contains(mysql.Migration(), "CREATE TABLE IF NOT EXISTS distlock_claim ("))
	// Output: true
}

func ExampleSchemaError() {
	var err error = &mysql.SchemaError{Have: "3.1", Want: "1.1"}
	fmt.Println(err)
	fmt.Println(errors.Is(err, driver.ErrUnavailable))
	// Output:
	// mysql: the tables have version 3.1, and this program needs 1.1: run distlock migrate, or use a newer program if the tables are newer
	// true
}

func ExampleSchemaError_Finding() {
	f := (&mysql.SchemaError{Want: "1.1"}).Finding()
	fmt.Println(f.What)
	fmt.Println(f.Cure)
	// Output:
	// the tables are missing
	// run distlock migrate as a user that may create tables and procedures
}
