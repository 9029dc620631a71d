package pgadvisory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
)

// TxOptions change what LockTx and TryLockTx do. The zero value of each field is its default.
type TxOptions struct {
	Shared   bool   // beside others that are shared
	Schema   string // where the sequence of fences is, as in Options; it must be there: see Migration
	Unfenced bool   // take no fence
}

// TryLockTx takes the lock of a key for the caller's own transaction, if it is free. It lasts until the transaction is committed or rolled back, and
// also to a savepoint before it; nothing renews or releases it. It excludes the claims of a Store, and every other way to take the same
// lock, but not the transaction itself: who has it is granted it again.
//
// The fence rises with every grant, and is 0 with Unfenced. After an error the transaction has to be rolled back.
func TryLockTx(ctx context.Context, tx pgx.Tx, key string, opt *TxOptions) (fence uint64, granted bool, err error) {
	take := "pg_try_advisory_xact_lock($1)"
	if opt != nil && opt.Shared {
		take = "pg_try_advisory_xact_lock_shared($1)"
	}
	value, err := txGrant(ctx, tx, key, take, opt)
	if err != nil || value == nil {
		return 0, false, err
	}
	return uint64(*value), true, nil
}

// LockTx is TryLockTx for those who wait. They stand in the server's own line until the lock is theirs, lock_timeout is over, or ctx is; with ctx ends the
// connection, as pgx does it.
func LockTx(ctx context.Context, tx pgx.Tx, key string, opt *TxOptions) (fence uint64, err error) {
	take := "pg_advisory_xact_lock($1) is not null"
	if opt != nil && opt.Shared {
		take = "pg_advisory_xact_lock_shared($1) is not null"
	}
	value, err := txGrant(ctx, tx, key, take, opt)
	if err != nil || value == nil {
		return 0, err
	}
	return uint64(*value), nil
}

func txGrant(ctx context.Context, tx pgx.Tx, key, take string, opt *TxOptions) (value *int64, err error) {
	if len(key) == 0 || len(key) > driver.MaxKey {
		return nil, fmt.Errorf("%w: a key of %d bytes is not 1 to %d bytes", driver.ErrInvalid, len(key), driver.MaxKey)
	}
	next, schema := "0::bigint", defaultSchema
	if opt != nil && opt.Schema != "" {
		schema = opt.Schema
	}
	if opt == nil || !opt.Unfenced {
		next = nextFence(schema)
	}
	err = tx.QueryRow(ctx, "select case when "+take+" then "+next+" end", Key(key)).Scan(&value)
	if err != nil {
		return nil, fmt.Errorf("pgadvisory: %w", err)
	}
	return value, nil
}
