package fence

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/distlock/distlock/internal/names"
)

// ErrRecorded says that there is already a result, and nothing was changed: roll back, and call
// [Recorded] for the result.
var ErrRecorded = errors.New("fence: already recorded")

// Once runs f in a transaction and records the result, as JSON, in the same transaction: the
// changes that f makes in it are made once, and later calls return the recorded result. A holder
// that is lost half way leaves nothing behind, and the next one starts again. Effects of f outside
// the transaction may happen again.
//
// The key is the name of the lock. If there is a result Once returns it and does not run f, even if
// the lease's fence is stale. A stale fence without a result is [ErrStale].
func Once[T any](ctx context.Context, db Beginner, t Table, l Lease, f func(tx *sql.Tx) (T, error)) (T, error) {
	var out T
	p, err := Of(l)
	if err != nil {
		return out, err
	}
	found := false
	err = within(ctx, db, func(tx *sql.Tx) error {
		stale := t.Advance(ctx, tx, p) // waits for another transaction under the same lock
		if stale != nil && !errors.Is(stale, ErrStale) {
			return stale
		}
		was, ok, err := Recorded[T](ctx, tx, t, p.key)
		switch {
		case err != nil:
			return err
		case ok:
			out, found = was, true
			return errFound
		case stale != nil:
			return stale
		}
		made, err := f(tx)
		if err != nil {
			return err
		}
		out = made
		return Record(ctx, tx, t, p, made)
	})
	if err != nil && !found {
		var none T
		return none, err
	}
	return out, nil
}

// errFound rolls back a transaction that has nothing to do.
var errFound = errors.New("fence: found")

// Record records a result under the name of the lock, as JSON, in the caller's transaction. If
// there is already one the error is [ErrRecorded]. If the lease's fence is stale it is [ErrStale].
// In both cases roll back.
func Record[T any](ctx context.Context, tx *sql.Tx, t Table, l Lease, result T) error {
	p, err := Of(l)
	if err != nil {
		return err
	}
	g, err := t.guard()
	if err != nil {
		return err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("fence: the result for %s: %w", names.Quote(p.key), err)
	}
	v, err := g.Record(ctx, runner{tx}, p.key, p.fence, string(text))
	return verdict(p, v, err)
}

// Recorded returns the result that was recorded under the name of a lock, or under [NameOf] if it
// was not a plain lock. It reports whether there is one.
func Recorded[T any](ctx context.Context, db DB, t Table, key string) (result T, ok bool, err error) {
	g, err := t.guard()
	if err != nil {
		return result, false, err
	}
	text, ok, err := g.Result(ctx, runner{db}, key)
	if err != nil {
		return result, false, fmt.Errorf("fence: %s: %w", names.Quote(key), err)
	}
	if !ok {
		return result, false, nil
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return result, false, fmt.Errorf("fence: the result for %s: %w", names.Quote(key), err)
	}
	return result, true, nil
}
