package pgadvisory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
)

// TxOptions configure [LockTx] and [TryLockTx]. The zero value of each field is its default.
type TxOptions struct {
	Shared   bool   // shared with other shared locks
	Schema   string // the schema of the sequence of fences, as in Options; it must exist: see Migration
	Unfenced bool   // take no fence
}

// TryLockTx acquires the lock of a key for the caller's own transaction, if it is free. The lock
// lasts until the transaction is committed or rolled back, also to a savepoint before the lock;
// nothing renews or releases it. It excludes the claims of a [Store] and every other way to acquire
// the same lock, but not the same transaction, which is granted it again.
//
// The fence rises with every grant, and is 0 with Unfenced. After an error the transaction must be
// rolled back.
func TryLockTx(
	ctx context.Context, tx pgx.Tx, key string, opt *TxOptions,
) (fence uint64, granted bool, err error) {
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

// LockTx is a [TryLockTx] that waits. It waits in the server's queue until the lock is granted,
// lock_timeout has passed or ctx ends. At the end of ctx, pgx closes the connection.
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

func txGrant(
	ctx context.Context, tx pgx.Tx, key, take string, opt *TxOptions,
) (value *int64, err error) {
	if len(key) == 0 || len(key) > driver.MaxKey {
		return nil, fmt.Errorf("%w: a key of %d bytes is not 1 to %d bytes", driver.ErrInvalid,
			len(key), driver.MaxKey)
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
