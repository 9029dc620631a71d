package open_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/open"
)

func ExampleOpen() {
	source, err := open.Open(context.Background(), "memory:?lock_ttl=20s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	fmt.Println(source.Store.Features().Name, source.TTL)

	_, err = open.Open(context.Background(), "memroy:")
	fmt.Println(errors.Is(err, open.ErrURL))
	// Output:
	// mem 20s
	// true
}

func ExampleSource_Close() {
	dir, remove := folder()
	defer remove()
	source, err := open.Open(context.Background(), "sqlite://"+dir+"/locks.db")
	if err != nil {
		fmt.Println(err)
		return
	}
	source.Close()
	err = source.Store.Release(context.Background(), driver.ID{Key: "key", Owner: "secret"})
	fmt.Println(err != nil)
	// Output: true
}

func ExampleMigrate() {
	_, _, err := open.Migrate(context.Background(), "memory:") // "postgres://..." returns the old and the new version
	fmt.Println(errors.Is(err, errors.ErrUnsupported), err)
	// Output: true mem has no schema: unsupported operation
}

func ExampleMigration() {
	sql, err := open.Migration("postgres://db1/billing")
	fmt.Println(len(sql) > 0, err) // for users who run it themselves
	// Output: true <nil>
}

func ExampleRedact() {
	fmt.Println(open.Redact("cannot reach redis://worker:s3cret@db1:6379/0"))
	// Output: cannot reach redis://worker:[redacted]@db1:6379/0
}

func ExampleRedactor() {
	redact := open.Redactor("redis://worker:s3cret@db1:6379/0")
	fmt.Println(redact("ERR invalid password s3cret"))
	// Output: ERR invalid password [redacted]
}

func ExampleHasSecret() {
	fmt.Println(open.HasSecret("redis://worker:s3cret@db1"), open.HasSecret("redis://db1"))
	// Output: true false
}

// folder creates a folder for an example, which has no t.TempDir.
func folder() (string, func()) {
	dir, err := os.MkdirTemp("", "distlock-example-")
	if err != nil {
		panic(err)
	}
	return filepath.ToSlash(dir), func() { _ = os.RemoveAll(dir) }
}

func ExampleSource_Options() {
	ctx := context.Background()
	source, err := open.Open(ctx, "memory:?lock_ttl=10s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	locker, err := distlock.New(source.Store, source.Options()...) // or open.Locker
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, err := locker.Lock(ctx, "report")
	fmt.Println(lease.Remaining() < 10*time.Second, err, locker.Close(ctx))
	// Output: true <nil> <nil>
}
