package guard

import (
	"context"
	"errors"
	"fmt"
)

// A Table keeps the highest fence of every key, and the recorded results.
type Table struct {
	Name  string
	Style Style
}

// Ensure creates the table if it does not exist.
func (t Table) Ensure(ctx context.Context, db DB) error {
	columns := ` (
	key text primary key,
	fence bigint not null check (fence > 0),
	result text
)`
	if t.Style == MySQL { // a primary key has a longest length, and compares bytes
		columns = " (\n\t`key` varbinary(1024) primary key,\n\tfence bigint not null check (fence > 0),\n\tresult longtext character set utf8mb4\n) engine=InnoDB"
	}
	_, err := db.Exec(ctx, `create table if not exists `+t.Name+columns)
	if err == nil {
		return nil
	}
	// Another process may have created the table at the same moment, or for a role that may not
	// create it. Then it can be read.
	if _, _, _, missing := t.read(ctx, db, ""); missing != nil {
		return errors.Join(err, missing)
	}
	return nil
}

// Advance makes fence the highest of its key, unless the key has a higher one. The row stays locked
// until the transaction ends: other fences are compared after that.
func (t Table) Advance(ctx context.Context, db DB, key string, fence uint64) (Verdict, error) {
	if t.Style == MySQL {
		return t.advanceMySQL(ctx, db, key, fence)
	}
	query := t.Style.mark(`insert into `+t.Name+` as g (key, fence) values ({}, {})
on conflict (key) do update set fence = excluded.fence where g.fence <= excluded.fence`, 1)
	rows, err := db.Exec(ctx, query, key, int64(fence))
	if err != nil || rows == 1 {
		return Verdict{}, err
	}
	current, _, _, _ := t.read(ctx, db, key) // the fence is stale, even if the higher one cannot be read
	return Verdict{Stale, current}, nil
}

// advanceMySQL is Advance on MariaDB, whose statements have no condition, and do not count a row
// that stays as it is.
func (t Table) advanceMySQL(ctx context.Context, db DB, key string, fence uint64) (Verdict, error) {
	rows, err := db.Exec(ctx, "insert into "+t.Name+" (`key`, fence) values (?, ?)"+
		" on duplicate key update fence = greatest(fence, values(fence))", key, int64(fence))
	if err != nil || rows == 2 {
		return Verdict{}, err
	}
	current, _, _, err := t.read(ctx, db, key)
	switch {
	case err != nil:
		return Verdict{}, fmt.Errorf("the highest fence cannot be read: %w", err)
	case current == fence:
		return Verdict{}, nil
	}
	return Verdict{Stale, current}, nil
}

// Record is Advance, and keeps a result unless there is one.
func (t Table) Record(ctx context.Context, db DB, key string, fence uint64, result string) (Verdict, error) {
	query := t.Style.mark(`insert into `+t.Name+` as g (key, fence, result) values ({}, {}, {})
on conflict (key) do update set fence = excluded.fence, result = excluded.result where g.fence <= excluded.fence and g.result is null`, 1)
	if t.Style == MySQL { // the fence is the new one after the first assignment, unless it is stale
		query = "insert into " + t.Name + " (`key`, fence, result) values (?, ?, ?) on duplicate key update" +
			" fence = if(result is null, greatest(fence, values(fence)), fence)," +
			" result = if(result is null and fence = values(fence), values(result), result)"
	}
	rows, err := db.Exec(ctx, query, key, int64(fence), result)
	if err != nil || rows >= 1 { // MariaDB counts a changed row twice
		return Verdict{}, err
	}
	current, _, recorded, err := t.read(ctx, db, key)
	switch {
	case err != nil:
		return Verdict{}, fmt.Errorf("nothing was recorded, and the reason cannot be read: %w", err)
	case recorded:
		return Verdict{Outcome: Recorded}, nil
	}
	return Verdict{Stale, current}, nil
}

// Result returns the recorded result.
func (t Table) Result(ctx context.Context, db DB, key string) (result string, ok bool, err error) {
	_, result, ok, err = t.read(ctx, db, key)
	return result, ok, err
}

// Sweep removes the keys whose fences are below a bound, and returns their number.
func (t Table) Sweep(ctx context.Context, db DB, below uint64) (int64, error) {
	return db.Exec(ctx, t.Style.mark("delete from "+t.Name+" where fence < cast({} as "+t.Style.integer()+")", 1), int64(below))
}

func (t Table) read(ctx context.Context, db DB, key string) (fence uint64, result string, recorded bool, err error) {
	var f int64
	var r *string
	found, err := db.Row(ctx, t.Style.mark("select fence, result from "+t.Name+" where "+t.Style.key()+" = {}"+t.Style.latest(), 1), []any{key}, &f, &r)
	if err != nil || !found {
		return 0, "", false, err
	}
	if r == nil {
		return uint64(f), "", false, nil
	}
	return uint64(f), *r, true, nil
}
