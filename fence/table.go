package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distlock/distlock/internal/guard"
	"github.com/distlock/distlock/internal/proof"
)

// A Table guards resources that have no column for a fence: it remembers the highest fence of every
// lock. It guards the changes that are made in the same transaction. [Table.Ensure] creates the
// table, which is:
//
//	create table if not exists distlock_fence (
//		key text primary key,
//		fence bigint not null check (fence > 0),
//		result text
//	)
//
// The zero Table is ready for use. It works on PostgreSQL and SQLite, and on MariaDB with
// [MySQL].
type Table struct {
	Name         string       // becomes part of SQL statements as it is; "" means distlock_fence
	Placeholders Placeholders // the default is Dollar
}

// A Beginner begins transactions: a *[sql.DB] or a *[sql.Conn].
type Beginner interface {
	// BeginTx begins a transaction.
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Ensure creates the table if it does not exist. Many processes may call it at once.
func (t Table) Ensure(ctx context.Context, db DB) error {
	g, err := t.guard()
	if err != nil {
		return err
	}
	if err := g.Ensure(ctx, runner{db}); err != nil {
		return fmt.Errorf("fence: create %s: %w", g.Name, err)
	}
	return nil
}

// Do runs f in a transaction that is guarded by the lease, and commits it. If the lease's fence is
// stale the error is [ErrStale], and f does not run. If f returns an error the transaction is
// rolled back.
//
// While f runs, other transactions under the same lock wait for its end.
func (t Table) Do(ctx context.Context, db Beginner, l Lease, f func(tx *sql.Tx) error) error {
	return within(ctx, db, func(tx *sql.Tx) error {
		if err := t.Advance(ctx, tx, l); err != nil {
			return err
		}
		return f(tx)
	})
}

// Advance makes the fence of the lease the highest of its lock, in the caller's transaction: the
// changes of that transaction are guarded. If there is a higher one the error is [ErrStale]: roll
// back. Until the transaction ends, other calls of Advance under the same lock wait.
//
// Call it before anything else: SQLite may not let a transaction write that has only read so far.
func (t Table) Advance(ctx context.Context, tx *sql.Tx, l Lease) error {
	return t.advance(ctx, tx, l)
}

func (t Table) advance(ctx context.Context, db DB, l Lease) error {
	p, err := Of(l)
	if err != nil {
		return err
	}
	g, err := t.guard()
	if err != nil {
		return err
	}
	v, err := g.Advance(ctx, runner{db}, p.key, p.fence)
	return verdict(p, v, err)
}

// Sweep removes the rows of locks whose highest fence is below a bound, results included, and
// returns their number. Any fence of such a lock is accepted again. So the bound must be a fence
// that a lock of the same store was given long ago: all earlier holders of a lock have ended, and
// nobody needs results that old.
func (t Table) Sweep(ctx context.Context, db DB, below uint64) (int64, error) {
	g, err := t.guard()
	if err != nil {
		return 0, err
	}
	if below >= proof.MaxFence {
		return 0, fmt.Errorf("%w: fence %d is not below 2^53", ErrInvalid, below)
	}
	n, err := g.Sweep(ctx, runner{db}, below)
	if err != nil {
		return n, fmt.Errorf("fence: sweep %s: %w", g.Name, err)
	}
	return n, nil
}

// Register returns the table as a [Register] for [Middleware].
func (t Table) Register(db *sql.DB) Register { return register{t, db} }

type register struct {
	t  Table
	db *sql.DB
}

// Advance runs one statement, which is a transaction of its own.
func (r register) Advance(ctx context.Context, l Lease) error { return r.t.advance(ctx, r.db, l) }

func (t Table) guard() (guard.Table, error) {
	g := guard.Table{Name: t.Name, Style: t.Placeholders.style()}
	if g.Name == "" {
		g.Name = "distlock_fence"
	}
	if err := guard.CheckNames(g.Name); err != nil {
		return g, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return g, nil
}

// within runs f in a transaction, and commits it unless f fails.
func within(ctx context.Context, db Beginner, f func(tx *sql.Tx) error) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence: begin: %w", err)
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		// Also after a panic. If ctx has ended, the transaction is already rolled back.
		if undo := tx.Rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, fmt.Errorf("fence: roll back: %w", undo))
		}
	}()
	if err := f(tx); err != nil {
		return err
	}
	committed = true
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence: commit, which may have been done: %w", err)
	}
	return nil
}
