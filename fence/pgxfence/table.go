package pgxfence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/guard"
)

// A Table guards resources that have no column for a fence: it remembers the highest fence of every
// lock. It guards the changes that are made in the same transaction. [Table.Ensure] creates the
// table, the same as that of [fence.Table]. The zero Table is ready for use.
type Table struct {
	Name string // becomes part of SQL statements as it is; "" means distlock_fence
}

// Ensure creates the table if it does not exist. Many processes may call it at once. Do not call it
// in a transaction.
func (t Table) Ensure(ctx context.Context, db DB) error {
	g, err := t.guard()
	if err != nil {
		return err
	}
	if err := g.Ensure(ctx, runner{db}); err != nil {
		return fmt.Errorf("pgxfence: create %s: %w", g.Name, err)
	}
	return nil
}

// Do runs f in a transaction that is guarded by the lease, and commits it. If the lease's fence is
// stale the error is [fence.ErrStale], and f does not run. If f returns an error the transaction is
// rolled back.
//
// While f runs, other transactions under the same lock wait for its end.
func (t Table) Do(ctx context.Context, db Beginner, l fence.Lease, f func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if err := t.Advance(ctx, tx, l); err != nil {
			return err
		}
		return f(tx)
	})
}

// Advance makes the fence of the lease the highest of its lock, in the caller's transaction: the
// changes of that transaction are guarded. If there is a higher one the error is [fence.ErrStale]:
// roll back. Until the transaction ends, other calls of Advance under the same lock wait.
func (t Table) Advance(ctx context.Context, tx pgx.Tx, l fence.Lease) error {
	return t.advance(ctx, tx, l)
}

func (t Table) advance(ctx context.Context, db DB, l fence.Lease) error {
	p, err := fence.Of(l)
	if err != nil {
		return err
	}
	g, err := t.guard()
	if err != nil {
		return err
	}
	v, err := g.Advance(ctx, runner{db}, p.Name(), p.Fence())
	return verdict(p, v, err)
}

// Sweep removes the rows of locks whose highest fence is below a bound, and returns their number.
// See [fence.Table.Sweep] for the bound.
func (t Table) Sweep(ctx context.Context, db DB, below uint64) (int64, error) {
	g, err := t.guard()
	if err != nil {
		return 0, err
	}
	if below >= 1<<53 {
		return 0, fmt.Errorf("%w: fence %d is not below 2^53", fence.ErrInvalid, below)
	}
	n, err := g.Sweep(ctx, runner{db}, below)
	if err != nil {
		return n, fmt.Errorf("pgxfence: sweep %s: %w", g.Name, err)
	}
	return n, nil
}

// Register returns the table as a register for [fence.Middleware].
func (t Table) Register(pool *pgxpool.Pool) fence.Register { return register{t, pool} }

type register struct {
	t    Table
	pool *pgxpool.Pool // not a transaction: nothing would be durable until its end
}

// Advance runs one statement, which is a transaction of its own.
func (r register) Advance(ctx context.Context, l fence.Lease) error {
	return r.t.advance(ctx, r.pool, l)
}

func (t Table) guard() (guard.Table, error) {
	g := guard.Table{Name: t.Name}
	if g.Name == "" {
		g.Name = "distlock_fence"
	}
	if err := guard.CheckNames(g.Name); err != nil {
		return g, fmt.Errorf("%w: %w", fence.ErrInvalid, err)
	}
	return g, nil
}

// Once runs f in a transaction and records the result, as JSON, in the same transaction: the
// changes that f makes in it are made once, and later calls return the recorded result. A holder
// that is lost half way leaves nothing behind, and the next one starts again. Effects of f outside
// the transaction may happen again.
//
// The key is the name of the lock. If there is a result Once returns it and does not run f, even if
// the lease's fence is stale. A stale fence without a result is [fence.ErrStale].
func Once[T any](ctx context.Context, db Beginner, t Table, l fence.Lease, f func(tx pgx.Tx) (T, error)) (T, error) {
	var out, none T
	p, err := fence.Of(l)
	if err != nil {
		return none, err
	}
	found := false
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		stale := t.Advance(ctx, tx, p) // waits for another transaction under the same lock
		if stale != nil && !errors.Is(stale, fence.ErrStale) {
			return stale
		}
		was, ok, err := Recorded[T](ctx, tx, t, p.Name())
		switch {
		case err != nil:
			return err
		case ok:
			out, found = was, true
			return errFound
		case stale != nil:
			return stale
		}
		if out, err = f(tx); err != nil {
			return err
		}
		return Record(ctx, tx, t, p, out)
	})
	if err != nil && !found {
		return none, err
	}
	return out, nil
}

// errFound rolls back a transaction that has nothing to do.
var errFound = errors.New("pgxfence: found")

// Record records a result under the name of the lock, as JSON, in the caller's transaction. If
// there is already one the error is [fence.ErrRecorded]. If the lease's fence is stale it is
// [fence.ErrStale]. In both cases roll back.
func Record[T any](ctx context.Context, tx pgx.Tx, t Table, l fence.Lease, result T) error {
	p, err := fence.Of(l)
	if err != nil {
		return err
	}
	g, err := t.guard()
	if err != nil {
		return err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("pgxfence: the result for %.64q: %w", p.Name(), err)
	}
	v, err := g.Record(ctx, runner{tx}, p.Name(), p.Fence(), string(text))
	return verdict(p, v, err)
}

// Recorded returns the result that was recorded under the name of a lock, or under [fence.NameOf]
// if it was not a plain lock. It reports whether there is one.
func Recorded[T any](ctx context.Context, db DB, t Table, key string) (result T, ok bool, err error) {
	g, err := t.guard()
	if err != nil {
		return result, false, err
	}
	text, ok, err := g.Result(ctx, runner{db}, key)
	if err != nil {
		return result, false, fmt.Errorf("pgxfence: %.64q: %w", key, err)
	}
	if !ok {
		return result, false, nil
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		return result, false, fmt.Errorf("pgxfence: the result for %.64q: %w", key, err)
	}
	return result, true, nil
}
