package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/distlock/distlock/internal/guard"
)

// Placeholders is how a database wants the places of arguments to be marked.
type Placeholders int

// The ways to mark them.
const (
	Dollar   Placeholders = iota // $1, $2: PostgreSQL, SQLite
	Question                     // ?: SQLite
)

// A DB runs statements: a *sql.DB, a *sql.Tx or a *sql.Conn.
type DB interface {
	// ExecContext runs a statement.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryRowContext reads one row.
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// A Row guards rows that have a column for the fence. All changes of such a row go through Update, under one lock: the
// one for its key.
//
//	alter table invoice add column fence bigint not null default 0
//
// The names become part of SQL statements as they are. Nothing that came from outside may be among them.
type Row struct {
	Table        string       // invoice, or billing.invoice
	Key          string       // the column that names a row; "": id
	Column       string       // the column of the fence; "": fence
	Placeholders Placeholders // Dollar, unless said otherwise
}

// Update changes the row whose key is id and its fence, by one statement, if the fence of the lease is not below
// the row's. The text set is what stands after the word set, with the placeholders from the first on for args; it
// may be empty. The lease is a *distlock.Lease, or a Proof. The database may be a transaction.
//
// If the row has a higher fence the error is ErrStale. If there is no such row it is sql.ErrNoRows. In both cases nothing was changed:
// whoever has changed something before in the same transaction rolls it back.
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

func (p Placeholders) style() guard.Style { return guard.Style(p == Question) }

// verdict makes an error of what a guard says.
func verdict(p Proof, v guard.Verdict, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("fence: %s: %w", quote(p.key), err)
	case v.Outcome == guard.Stale:
		return &StaleError{Name: p.key, Fence: p.fence, Current: v.Current}
	case v.Outcome == guard.Absent:
		return fmt.Errorf("fence: %s: no row to update: %w", quote(p.key), sql.ErrNoRows)
	case v.Outcome == guard.Recorded:
		return fmt.Errorf("%w for %s", ErrRecorded, quote(p.key))
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
