package pgadvisory

import (
	"cmp"
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
	value, err := txGrant(ctx, tx, key, "pg_try_advisory_xact_lock%s($1)", opt)
	if err != nil || value == nil {
		return 0, false, err
	}
	return uint64(*value), true, nil
}

// LockTx is a [TryLockTx] that waits. It waits in the server's queue until the lock is granted,
// lock_timeout has passed or ctx ends. At the end of ctx, pgx cancels the statement and closes the
// connection. A cancellation that arrives before the statement is missed: then the server waits on,
// and others wait behind it, until lock_timeout or client_connection_check_interval ends the wait.
func LockTx(ctx context.Context, tx pgx.Tx, key string, opt *TxOptions) (fence uint64, err error) {
	value, err := txGrant(ctx, tx, key, "pg_advisory_xact_lock%s($1) is not null", opt)
	if err != nil || value == nil {
		return 0, err
	}
	return uint64(*value), nil
}

// txGrant runs a condition that takes the lock, and returns the fence, or nil if it is refused.
func txGrant(
	ctx context.Context, tx pgx.Tx, key, take string, opt *TxOptions,
) (value *int64, err error) {
	if len(key) == 0 || len(key) > driver.MaxKey {
		return nil, fmt.Errorf("%w: a key of %d bytes is not 1 to %d bytes", driver.ErrInvalid,
			len(key), driver.MaxKey)
	}
	if opt == nil {
		opt = &TxOptions{}
	}
	shared, next := "", nextFence(cmp.Or(opt.Schema, defaultSchema))
	if opt.Shared {
		shared = "_shared"
	}
	if opt.Unfenced {
		next = "0::bigint"
	}
	sql := "select case when " + fmt.Sprintf(take, shared) + " then " + next + " end"
	if err := tx.QueryRow(ctx, sql, Key(key)).Scan(&value); err != nil {
		return nil, fmt.Errorf("pgadvisory: %w", err)
	}
	return value, nil
}
