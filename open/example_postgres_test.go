package open_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/distlock/distlock/open"
)

func ExampleMigrate() {
	ctx := context.Background()
	from, to, err := open.Migrate(ctx, "postgres://admin@db/app")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("from version", from, "to", to)
}

func ExampleMigration() {
	sql, err := open.Migration("postgres://db/app?lock_schema=locks")
	fmt.Println(strings.Contains(sql, `create table "locks".claim (`), err)

	_, err = open.Migration("memory:")
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// true <nil>
	// true
}
