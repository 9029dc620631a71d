package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

//go:embed sql/tables.sql
var tablesSQL string

//go:embed sql/procedures.sql
var proceduresSQL string

const (
	// layout is the version of the tables, and procedures the number of the procedures, that this
	// package creates and works with. Procedures with a higher number do everything that those with
	// a lower one do.
	layout     = 1
	procedures = 1
)

// A SchemaError reports that the tables or procedures are missing, or have a version that this
// program cannot work with. It matches [driver.ErrUnavailable]: nothing was changed.
type SchemaError struct {
	Have string // version of tables and procedures; "": they are missing
	Want string // version of this program
	Err  error  // why they could not be created; nil: no attempt was made
}

func (e *SchemaError) Error() string {
	what, cure := e.describe()
	return "mysql: " + what + ": " + cure
}

// Finding returns the error as a finding of an inspection.
func (e *SchemaError) Finding() driver.Finding {
	what, cure := e.describe()
	return driver.Finding{Level: driver.LevelDanger, What: what, Means: "nothing can be claimed", Cure: cure}
}

func (e *SchemaError) describe() (what, cure string) {
	const migrate = "run distlock migrate as a user that may create tables and procedures"
	switch {
	case e.Err != nil:
		return fmt.Sprintf("the tables cannot be migrated from version %q to %s: %v", e.Have, e.Want, e.Err), migrate
	case e.Have == "":
		return "the tables are missing", migrate
	}
	return fmt.Sprintf("the tables have version %s, and this program needs %s", e.Have, e.Want),
		"run distlock migrate, or use a newer program if the tables are newer"
}

// Is makes a SchemaError match [driver.ErrUnavailable].
func (e *SchemaError) Is(target error) bool { return target == driver.ErrUnavailable }

// Unwrap returns Err.
func (e *SchemaError) Unwrap() error { return e.Err }

// A version is the version of tables and procedures. The zero version is that of missing tables.
type version struct{ tables, procedures int }

func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.tables, v.procedures)
}

// A server holds what the store knows about the server after the first connection.
type server struct {
	version   string
	returning bool // INSERT ... RETURNING is supported: the server is MariaDB
}

// prepare checks the server behind a new connection, and creates missing tables. It succeeds once
// for all connections.
func (s *Store) prepare(ctx context.Context, c *sql.Conn) (*server, error) {
	if v := s.ready.Load(); v != nil {
		return v, nil
	}
	select { // a check may take long: another process may be migrating
	case s.check <- struct{}{}:
		defer func() { <-s.check }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if v := s.ready.Load(); v != nil {
		return v, nil
	}
	v, err := look(ctx, c)
	if err != nil {
		return nil, err
	}
	have, err := tablesVersion(ctx, c)
	if err == nil && have == (version{}) && !s.opt.Manual {
		_, have, err = migrate(ctx, c, v)
	}
	if err != nil {
		return nil, err
	}
	if have.tables != layout || have.procedures < procedures {
		return nil, &SchemaError{Have: have.String(), Want: version{layout, procedures}.String()}
	}
	s.ready.Store(v)
	return v, nil
}

var versionPattern = regexp.MustCompile(`^(\d+)\.(\d+)`)

// look reads the version of the server.
func look(ctx context.Context, c *sql.Conn) (*server, error) {
	rows, err := read(ctx, c, "SELECT VERSION()")
	if err != nil {
		return nil, connecting(ctx, err)
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return nil, sqlrow.ErrAnswer
	}
	v := &server{version: string(rows[0][0])}
	v.returning = strings.Contains(v.version, "MariaDB")
	parts := versionPattern.FindStringSubmatch(strings.TrimPrefix(v.version, "5.5.5-"))
	if parts == nil {
		return nil, sqlrow.ErrAnswer
	}
	major, _ := strconv.Atoi(parts[1])
	minor, _ := strconv.Atoi(parts[2])
	if v.returning && major*100+minor < 1006 || !v.returning && major < 8 {
		return nil, fmt.Errorf("mysql: the server is %s, and MariaDB 10.6 and MySQL 8 are the first that will do: %w: %w",
			v.version, driver.ErrUnavailable, errors.ErrUnsupported)
	}
	return v, nil
}

// tablesVersion returns the version of the tables, or the zero version if there are none.
func tablesVersion(ctx context.Context, c *sql.Conn) (version, error) {
	rows, err := read(ctx, c, "SELECT (SELECT value FROM distlock_meta WHERE name = 'version'),"+
		" (SELECT value FROM distlock_meta WHERE name = 'procedures')")
	if code(err) == noTable {
		return version{}, nil
	}
	if err != nil {
		return version{}, connecting(ctx, err)
	}
	row := reader{sqlrow.Reader{Cells: rows[0]}}
	v := version{int(row.Number()), int(row.Number())}
	return v, row.Err
}

// Migrate creates the tables and procedures, or migrates them to the version of this program. It
// returns the old and the new version: the version of the tables, a dot, and the number of the
// procedures. An empty version means that there were none. Concurrent calls are safe: one migrates,
// and the others find everything migrated. Migrate does not change newer tables and returns a
// [*SchemaError]. It does not change newer procedures either.
func (s *Store) Migrate(ctx context.Context) (from, to string, err error) {
	if err := s.claims.enter(ctx); err != nil {
		return "", "", err
	}
	defer s.claims.leave()
	c, err := s.claims.Conn(ctx)
	if err != nil {
		return "", "", connecting(ctx, err)
	}
	defer discard(c) // which also ends the lock of the migration
	v, err := look(ctx, c)
	if err != nil {
		return "", "", err
	}
	was, is, err := migrate(ctx, c, v)
	return was.String(), is.String(), err
}

// migrationLock is the named lock of a migration, at most 64 characters long.
const migrationLock = "CONCAT('distlock ', LEFT(SHA2(DATABASE(), 256), 32))"

// migrate returns the version before and the version after. After an error they are equal. Every
// step may be repeated: the version is written last.
func migrate(ctx context.Context, c *sql.Conn, v *server) (was, is version, err error) {
	rows, err := read(ctx, c, "SELECT GET_LOCK("+migrationLock+", 30)")
	if err != nil {
		return was, was, connecting(ctx, err)
	}
	if len(rows) != 1 || string(rows[0][0]) != "1" {
		return was, was, fmt.Errorf("%w: another migration of this database takes long", driver.ErrUnavailable)
	}
	defer func() { _, _ = c.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+migrationLock+")") }()
	if was, err = tablesVersion(ctx, c); err != nil {
		return was, was, err
	}
	want := version{layout, procedures}
	switch {
	case was.tables > layout:
		return was, was, &SchemaError{Have: was.String(), Want: want.String()}
	case was.tables == layout && was.procedures >= procedures:
		return was, was, nil
	}
	for _, text := range steps(v) {
		if _, err := c.ExecContext(ctx, text); err != nil {
			return was, was, &SchemaError{Have: was.String(), Want: want.String(), Err: connecting(ctx, err)}
		}
	}
	return was, want, nil
}

// Migration returns the SQL with which [Store.Migrate] creates tables and procedures on MariaDB,
// for operators who run it themselves with the client mariadb. It may run again and keeps existing
// data.
func Migration() string {
	var b strings.Builder
	b.WriteString("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION';\nDELIMITER $$\n")
	for _, text := range steps(&server{returning: true}) {
		b.WriteString(strings.TrimSpace(text) + "\n$$\n")
	}
	b.WriteString("DELIMITER ;\n")
	return b.String()
}

// steps returns the statements of a migration. Only MariaDB can replace a procedure in one step. On
// other servers a call fails if it comes between two steps, and changes nothing.
func steps(v *server) []string {
	var all []string
	for _, text := range strings.Split(tablesSQL+"-- ;;\n"+proceduresSQL, "-- ;;\n") {
		name := procedurePattern.FindStringSubmatch(text)
		switch {
		case !strings.Contains(text, "CREATE "):
			continue // a comment
		case name == nil:
		case v.returning:
			text = strings.Replace(text, "CREATE PROCEDURE", "CREATE OR REPLACE PROCEDURE", 1)
		default:
			all = append(all, "DROP PROCEDURE IF EXISTS "+name[1])
		}
		all = append(all, text)
	}
	return append(all,
		"INSERT IGNORE INTO distlock_meta VALUES ('identity', "+hexOf(rand.Text())+"), ('born', UTC_TIMESTAMP(6)), ('fence', '0')",
		fmt.Sprintf("REPLACE INTO distlock_meta VALUES ('version', %d), ('procedures', %d)", layout, procedures))
}

var procedurePattern = regexp.MustCompile(`(?m)^CREATE PROCEDURE (\w+)`)
