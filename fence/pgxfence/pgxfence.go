// Package pgxfence has the guards of package fence for pgx: they refuse a change that comes too
// late, by the fencing token of an exclusive lock. The rules are those of package fence. Tables and
// results are the same, so both packages may be used on one database.
package pgxfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/guard"
)

// A DB runs statements: a [pgx.Tx], a *[pgx.Conn] or a *[pgxpool.Pool].
type DB interface {
	// Exec runs a statement.
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	// QueryRow reads one row.
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// A Beginner begins transactions: a *[pgxpool.Pool], a *[pgx.Conn], or a [pgx.Tx].
type Beginner interface {
	// Begin begins a transaction.
	Begin(ctx context.Context) (pgx.Tx, error)
}

// A Row guards rows that have a column for the fence. All changes of such a row go through
// [Row.Update], under one lock: the lock for its key.
//
//	alter table invoice add column fence bigint not null default 0
//
// The names become part of SQL statements as they are. None of them may come from outside.
type Row struct {
	Table  string // invoice, or billing.invoice
	Key    string // the column of the key; "" means id
	Column string // the column of the fence; "" means fence
}

// Update changes the row whose key is id, and its fence, by one statement, if the fence of the
// lease is not below the row's. set is the text after the SQL word set, with the placeholders from
// $1 on for args; it may be empty. The lease is a *distlock.Lease or a [fence.Proof]. db may be a
// transaction.
//
// If the row has a higher fence the error is [fence.ErrStale]. If there is no such row it is
// [pgx.ErrNoRows]. In both cases nothing was changed: if the same transaction has changed something
// before, roll it back.
func (r Row) Update(ctx context.Context, db DB, l fence.Lease, id any, set string, args ...any) error {
	p, err := fence.Of(l)
	if err != nil {
		return err
	}
	g := guard.Row{Table: r.Table, Key: r.Key, Column: r.Column}
	if g.Key == "" {
		g.Key = "id"
	}
	if g.Column == "" {
		g.Column = "fence"
	}
	if err := guard.CheckNames(g.Table, g.Key, g.Column); err != nil {
		return fmt.Errorf("%w: %w", fence.ErrInvalid, err)
	}
	v, err := g.Update(ctx, runner{db}, p.Fence(), id, set, args)
	return verdict(p, v, err)
}

// verdict converts the answer of a guard to an error.
func verdict(p fence.Proof, v guard.Verdict, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("pgxfence: %.64q: %w", p.Name(), err)
	case v.Outcome == guard.Stale:
		return &fence.StaleError{Name: p.Name(), Fence: p.Fence(), Current: v.Current}
	case v.Outcome == guard.Absent:
		return fmt.Errorf("pgxfence: %.64q: no row to update: %w", p.Name(), pgx.ErrNoRows)
	case v.Outcome == guard.Recorded:
		return fmt.Errorf("%w for %.64q", fence.ErrRecorded, p.Name())
	}
	return nil
}

// A runner runs the statements of guards.
type runner struct{ db DB }

func (r runner) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := r.db.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}

func (r runner) Row(ctx context.Context, query string, args []any, to ...any) (bool, error) {
	err := r.db.QueryRow(ctx, query, args...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
