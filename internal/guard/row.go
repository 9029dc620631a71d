package guard

import (
	"context"
	"errors"
	"fmt"
)

// A Row names the table, the key and the column of rows that have a fence.
type Row struct {
	Table, Key, Column string
	Style              Style
}

// Update changes the row whose key is id, if fence is not below the row's fence. args are the
// arguments of set.
func (r Row) Update(ctx context.Context, db DB, fence uint64, id any, set string, args []any) (Verdict, error) {
	if set != "" {
		set += ", "
	}
	// The cast makes the comparison one of numbers: in a column that was declared as text by
	// mistake, 9 would be more than 10. There PostgreSQL refuses to compare, and SQLite compares
	// numbers.
	tail := r.Style.mark(r.Column+" = {} where "+r.Key+" = {} and "+r.Column+" <= cast({} as "+r.Style.integer()+")", len(args)+1)
	args = append(args[:len(args):len(args)], int64(fence), id, int64(fence))
	rows, err := db.Exec(ctx, "update "+r.Table+" set "+set+tail, args...)
	switch {
	case err != nil:
		return Verdict{}, err
	case rows > 1:
		return Verdict{}, errors.New("more than one row has the key " + r.Key + ": roll back")
	case rows == 1:
		return Verdict{}, nil
	}
	return r.explain(ctx, db, fence, id)
}

// explain finds the reason why no row was changed.
func (r Row) explain(ctx context.Context, db DB, fence uint64, id any) (Verdict, error) {
	var current *int64
	query := r.Style.mark("select "+r.Column+" from "+r.Table+" where "+r.Key+" = {}"+r.Style.latest(), 1)
	found, err := db.Row(ctx, query, []any{id}, &current)
	switch {
	case err != nil:
		return Verdict{}, fmt.Errorf("no row was changed, and the reason cannot be read: %w", err)
	case found && current == nil:
		return Verdict{}, errors.New("the column " + r.Column + " is null, which compares with nothing: declare it not null default 0")
	case found && r.Style == MySQL && *current == int64(fence):
		return Verdict{}, nil // MariaDB does not count a row that had these values before
	case !found || *current <= int64(fence): // or the row was inserted after the update
		return Verdict{Outcome: Absent}, nil
	}
	return Verdict{Stale, uint64(*current)}, nil
}
