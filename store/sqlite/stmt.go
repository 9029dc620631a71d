package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// A stmt is a prepared statement. It takes no context: if a context ended during the call, the
// caller could not know whether the statement was run.
type stmt struct{ made driver.Stmt }

// exec runs the statement and returns how many rows it changed.
func (s *stmt) exec(args ...driver.Value) (changed int64, err error) {
	res, err := s.made.(driver.StmtExecContext).ExecContext(context.Background(), named(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// row reads the first row into dest, and reports whether there is one.
func (s *stmt) row(dest []driver.Value, args ...driver.Value) (found bool, err error) {
	err = s.rows(dest, func() bool {
		found = true
		return false
	}, args...)
	return found, err
}

// rows reads each row into dest and calls f, until f returns false.
func (s *stmt) rows(dest []driver.Value, f func() bool, args ...driver.Value) (err error) {
	rows, err := s.made.(driver.StmtQueryContext).QueryContext(context.Background(), named(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for {
		switch err := rows.Next(dest); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !f():
			return nil
		}
	}
}

func named(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}
