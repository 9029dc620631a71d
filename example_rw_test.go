package distlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock"
)

func ExampleLease_Downgrade() {
	ctx, locker := context.Background(), newLocker()

	writer, err := locker.Lock(ctx, "catalogue")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written under", writer.Mode())
	reader, err := writer.Downgrade(ctx) // no other writer comes in between
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock(ctx)
	fmt.Println("read back under", reader.Mode())
	// Output:
	// written under exclusive
	// read back under shared
}

func ExampleLocker_RLock_upgrade() {
	ctx, locker := context.Background(), newLocker()

	reader, err := locker.RLock(ctx, "catalogue")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock(ctx)
	_, err = locker.Lock(reader.Context(ctx), "catalogue") // it would wait for itself
	fmt.Println(errors.Is(err, distlock.ErrUpgrade), err)
	// Output: true distlock: a reader cannot become the writer: "catalogue" is held by the caller
}
