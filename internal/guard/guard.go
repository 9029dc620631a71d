// Package guard has the statements of the SQL guards, written once for database/sql and pgx. They are PostgreSQL's and
// SQLite's alike.
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
	// Exec runs a statement and tells how many rows it changed.
	Exec(ctx context.Context, query string, args ...any) (rows int64, err error)

	// Row reads one row. It reports false if there is none.
	Row(ctx context.Context, query string, args []any, to ...any) (found bool, err error)
}

// A Verdict is what a guard says of a fence.
type Verdict struct {
	Outcome Outcome
	Current uint64 // the fence that is higher, if it was Stale; 0: it could not be read
}

// Outcome is the kind of a verdict.
type Outcome int

// The outcomes. Only with Passed was anything written.
const (
	Passed   Outcome = iota
	Stale            // a higher fence was there before
	Absent           // there is no such row
	Recorded         // there is a result already
)

// identifier is a name of SQL, or several with dots between them, each plain or quoted.
var identifier = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\x00]+")(?:\.(?:[A-Za-z_][A-Za-z0-9_]*|"[^"\x00]+"))*$`)

// CheckNames says which of some names is none that SQL would take. They become part of statements: nothing
// that came from outside may be among them.
func CheckNames(names ...string) error {
	for _, n := range names {
		if !identifier.MatchString(n) {
			return fmt.Errorf("%.64q is no name of a table or column", n)
		}
	}
	return nil
}

// A Style is how a database wants its placeholders.
type Style bool

// The styles.
const (
	Dollar   Style = false // $1, $2
	Question Style = true  // ?
)

// mark writes the placeholders of a statement: {} becomes $1 or ?, in order, so that
// both styles take the same arguments.
func (s Style) mark(query string, first int) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(query, "{}")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		if s == Question {
			b.WriteByte('?')
		} else {
			b.WriteString("$" + strconv.Itoa(first))
		}
		first, query = first+1, rest
	}
}
