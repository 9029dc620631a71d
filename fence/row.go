package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distlock/distlock/internal/guard"
	"github.com/distlock/distlock/internal/names"
)

// Placeholders is the form of a database's placeholders for arguments.
type Placeholders int

// The forms.
const (
	Dollar   Placeholders = iota // $1, $2: PostgreSQL, SQLite
	Question                     // ?: SQLite
	MySQL                        // ?, in the dialect of MariaDB and MySQL. The client must not set clientFoundRows
)

// A DB runs statements: a *[sql.DB], a *[sql.Tx] or a *[sql.Conn].
type DB interface {
	// ExecContext runs a statement.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryRowContext reads one row.
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Row guards rows that have a column for the fence. All changes of such a row go through
// [Row.Update], under one lock: the lock for its key.
//
//	alter table invoice add column fence bigint not null default 0
//
// The names become part of SQL statements as they are. None of them may come from outside.
type Row struct {
	Table        string       // invoice, or billing.invoice
	Key          string       // the column of the key; "" means id
	Column       string       // the column of the fence; "" means fence
	Placeholders Placeholders // the default is Dollar
}

// Update changes the row whose key is id, and its fence, by one statement, if the fence of the
// lease is not below the row's. set is the text after the SQL word set, with the first placeholders
// for args; it may be empty. The lease is a *distlock.Lease or a [Proof]. db may be a transaction.
//
// If the row has a higher fence the error is [ErrStale]. If there is no such row it is
// [sql.ErrNoRows]. In both cases nothing was changed: if the same transaction has changed something
// before, roll it back.
func (r Row) Update(ctx context.Context, db DB, l Lease, id any, set string, args ...any) error {
	p, err := Of(l)
	if err != nil {
		return err
	}
	g := guard.Row{Table: r.Table, Key: r.Key, Column: r.Column, Style: r.Placeholders.style()}
	if g.Key == "" {
		g.Key = "id"
	}
	if g.Column == "" {
		g.Column = "fence"
	}
	if err := guard.CheckNames(g.Table, g.Key, g.Column); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	v, err := g.Update(ctx, runner{db}, p.fence, id, set, args)
	return verdict(p, v, err)
}

func (p Placeholders) style() guard.Style {
	switch p {
	case Question:
		return guard.Question
	case MySQL:
		return guard.MySQL
	default:
		return guard.Dollar
	}
}

// verdict converts the answer of a guard to an error.
func verdict(p Proof, v guard.Verdict, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("fence: %s: %w", names.Quote(p.key), err)
	case v.Outcome == guard.Stale:
		return &StaleError{Name: p.key, Fence: p.fence, Current: v.Current}
	case v.Outcome == guard.Absent:
		return fmt.Errorf("fence: %s: no row to update: %w", names.Quote(p.key), sql.ErrNoRows)
	case v.Outcome == guard.Recorded:
		return fmt.Errorf("%w for %s", ErrRecorded, names.Quote(p.key))
	}
	return nil
}

// A runner runs the statements of guards.
type runner struct{ db DB }

func (r runner) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := r.db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (r runner) Row(ctx context.Context, query string, args []any, to ...any) (bool, error) {
	err := r.db.QueryRowContext(ctx, query, args...).Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
