// Package guard has the SQL statements of the fencing-token guards, written once for database/sql
// and pgx. They work on PostgreSQL, SQLite and MariaDB.
package guard

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A DB runs statements.
type DB interface {
	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, query string, args ...any) (rows int64, err error)

	// Row reads one row. It reports whether there is one.
	Row(ctx context.Context, query string, args []any, to ...any) (found bool, err error)
}

// A Verdict is the answer of a guard to a fence.
type Verdict struct {
	Outcome Outcome
	Current uint64 // if Stale: the highest fence so far, or 0 if it could not be read
}

// Outcome is the kind of a [Verdict].
type Outcome int

// The outcomes. Only Passed means that something was written.
const (
	Passed   Outcome = iota
	Stale            // there is a higher fence
	Absent           // there is no such row
	Recorded         // there is already a result
)

// identifier matches an SQL name, or several separated by dots, each plain or quoted.
var identifier = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\x00]+")(?:\.(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\x00]+"))*$`)

// CheckNames returns an error for the first name that is not a valid SQL name. The names become
// part of statements: none of them may come from outside.
func CheckNames(names ...string) error {
	for _, n := range names {
		if !identifier.MatchString(n) {
			return fmt.Errorf("%.64q is not the name of a table or column", n)
		}
	}
	return nil
}

// A Style is the form of a database's placeholders, and its dialect.
type Style int

// The styles.
const (
	Dollar   Style = iota // $1, $2
	Question              // ?
	MySQL                 // ?, in the dialect of MariaDB and MySQL
)

// integer returns the type of a cast to an integer of 64 bits.
func (s Style) integer() string {
	if s == MySQL {
		return "signed"
	}
	return "bigint"
}

// key returns the name of the column key, which is a word of SQL in MariaDB.
func (s Style) key() string {
	if s == MySQL {
		return "`key`"
	}
	return "key"
}

// latest ends a query whose answer must not be older than the statement before it: a transaction of
// MariaDB reads the state of its first query, but changes the current one.
func (s Style) latest() string {
	if s == MySQL {
		return " for update"
	}
	return ""
}

// mark replaces each {} of a statement by a placeholder, $1 or ?, in order, so that both styles
// take the same arguments.
func (s Style) mark(query string, first int) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(query, "{}")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if s != Dollar {
			b.WriteByte('?')
		} else {
			b.WriteString("$" + strconv.Itoa(first))
		}
		first, query = first+1, rest
	}
}
