package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distlock/distlock/internal/guard"
)

// A Table guards what has no column for a fence: it remembers the highest fence of every lock. A change is guarded if it is made in the same
// transaction. Ensure creates the table, which is:
//
//	create table if not exists distlock_fence (
//		key text primary key,
//		fence bigint not null check (fence > 0),
//		result text
//	)
//
// The zero Table is ready for use. It works on PostgreSQL and SQLite.
type Table struct {
	Name         string       // it becomes part of SQL statements as it is; "": distlock_fence
	Placeholders Placeholders // Dollar, unless said otherwise
}

// A Beginner begins transactions: a *sql.DB or a *sql.Conn.
type Beginner interface {
	// BeginTx begins a transaction.
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// Ensure creates the table if it is not there. Many may call it at once.
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

// Do runs f in a transaction that is guarded by the lease, and commits it. If the lease's fence is stale the error is ErrStale, and f
// does not run. If f returns an error the transaction is rolled back.
//
// While it runs, other transactions under the same lock wait for its end.
func (t Table) Do(ctx context.Context, db Beginner, l Lease, f func(tx *sql.Tx) error) error {
	return within(ctx, db, func(tx *sql.Tx) error {
		if err := t.Advance(ctx, tx, l); err != nil {
			return err
		}
		return f(tx)
	})
}

// Advance makes the fence of the lease the highest of its lock, in the caller's transaction: what is changed in that transaction
// is guarded. If a higher one was there before the error is ErrStale: roll back. Until the transaction ends, others
// that call Advance under the same lock wait.
//
// Call it before anything else: on SQLite a transaction that has only read so far may be refused the right to write.
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

// Sweep removes what the table knows of locks whose highest fence is below a bound, results included, and tells how many
// there were. Fences of such locks are accepted again, whatever they are. So the bound must be a fence that some lock of the
// same store was given so long ago that all who held a lock before are done or dead, and results as old as that are not asked for
// any more.
func (t Table) Sweep(ctx context.Context, db DB, below uint64) (int64, error) {
	g, err := t.guard()
	if err != nil {
		return 0, err
	}
	if below >= maxFence {
		return 0, fmt.Errorf("%w: fence %d is not below 2^53", ErrInvalid, below)
	}
	n, err := g.Sweep(ctx, runner{db}, below)
	if err != nil {
		return n, fmt.Errorf("fence: sweep %s: %w", g.Name, err)
	}
	return n, nil
}

// Register returns the table as a register for Middleware.
func (t Table) Register(db *sql.DB) Register { return register{t, db} }

type register struct {
	t  Table
	db *sql.DB
}

// Advance is one statement: it is a transaction of its own.
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
		// Also after a panic. The end of ctx has rolled it back already.
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
