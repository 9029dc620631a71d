package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

const (
	// layout is the version of the tables that this package creates.
	layout = 3

	// first is the first layout that a migration starts from or creates. Layouts 1 and 2 are from
	// before the first release.
	first = 3

	// oldest is the oldest layout that this package can work with.
	oldest = 3

	// functions is the number of the functions that this package creates.
	functions = 14

	// enough is the lowest number of functions that this package can work with. Functions with a
	// higher number do everything that those with a lower one do.
	enough = 10
)

// noRight is the SQLSTATE of a missing permission.
const noRight = "42501"

// firstServer is the first version of PostgreSQL that supports the functions: it parses the body of
// an SQL function when the function is created.
const firstServer = 14

// A SchemaError reports that the schema is missing, cannot be read, or has a version that this
// program cannot work with. It matches [driver.ErrUnavailable]: nothing was changed.
type SchemaError struct {
	Schema    string
	Have      int   // version of the schema; 0: it is missing; -1: this role may not read it
	Want      int   // version of this program
	Functions int   // number of its functions, if they are too old or could not be replaced; otherwise 0
	Err       error // why it could not be read, created or migrated; nil: no attempt was made
}

func (e *SchemaError) Error() string {
	what, cure := e.describe()
	return "postgres: " + what + ": " + cure
}

// Finding returns the error as a finding of an inspection.
func (e *SchemaError) Finding() driver.Finding {
	what, cure := e.describe()
	return driver.Finding{
		Level: driver.LevelDanger, What: what, Means: "nothing can be claimed", Cure: cure,
	}
}

// describe returns the problem and the cure.
func (e *SchemaError) describe() (what, cure string) {
	const migrate, owner = "run distlock migrate", " as the owner of the schema"
	problem := func(format string, args ...any) string {
		return fmt.Sprintf("the schema %q ", e.Schema) + fmt.Sprintf(format, args...)
	}
	switch {
	case e.Have < 0:
		return problem("cannot be read by this role: %v", e.Err),
			"grant it the permissions of docs/postgres.md"
	case e.Have > e.Want:
		return problem("has version %d, and this program knows %d", e.Have, e.Want),
			"use a newer program"
	case e.Have > 0 && e.Have < first:
		const old = "has version %d, from before the first release, and this program needs %d"
		return problem(old, e.Have, e.Want), "drop the schema, or use another one (lock_schema)"
	case e.Have > 0 && e.Err != nil:
		what = problem("has version %v, and cannot be migrated to %v: %v",
			version{e.Have, e.Functions}, version{e.Want, functions}, e.Err)
		if code(e.Err) == noRight {
			return what, migrate + owner
		}
		return what, "fix this, and " + migrate
	case e.Functions > 0:
		const old = "has the functions of an older program, no. %d, and this one needs no. %d"
		return problem(old, e.Functions, enough), migrate + owner
	case e.Have > 0:
		return problem("has version %d, and this program needs %d", e.Have, e.Want), migrate + owner
	case e.Err != nil:
		return problem("is missing, and cannot be created: %v", e.Err),
			migrate + " as a role that may"
	}
	return problem("is missing"), migrate
}

// Is makes a SchemaError match [driver.ErrUnavailable].
func (e *SchemaError) Is(target error) bool { return target == driver.ErrUnavailable }

// Unwrap returns Err.
func (e *SchemaError) Unwrap() error { return e.Err }

// names holds the names that stand for the schema in SQL.
type names struct {
	schema  string // quoted
	channel string // of the whole schema
	replace *strings.Replacer
}

func namesOf(schema string) names {
	n := names{schema: pgx.Identifier{schema}.Sanitize(), channel: schema}
	seed := fnv.New64a()
	seed.Write([]byte("distlock/" + schema))
	literal := "'" + strings.ReplaceAll(schema, "'", "''") + "'"
	if strings.Contains(schema, `\`) {
		literal = "E" + strings.ReplaceAll(literal, `\`, `\\`)
	}
	n.replace = strings.NewReplacer("@schema@", n.schema, "@channel@", literal,
		"@seed@", strconv.FormatInt(int64(seed.Sum64()>>1), 10))
	return n
}

// sql inserts the names into a text.
func (n *names) sql(text string) string { return n.replace.Replace(text) }

// A version is the version of a schema. The zero version is that of a missing schema.
type version struct{ tables, functions int }

func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.tables, v.functions)
}

// version returns the version of the schema. It does not end an open transaction.
func (s *Store) version(ctx context.Context, conn *pgx.Conn) (version, error) {
	row := func(sql string) (string, error) {
		res := conn.PgConn().ExecParams(ctx, s.names.sql(sql), nil, nil, nil, nil).Read()
		switch {
		case code(res.Err) == noRight:
			return "", &SchemaError{Schema: s.opt.Schema, Have: -1, Want: layout, Err: res.Err}
		case res.Err != nil:
			return "", definite(res.Err, false)
		case len(res.Rows) == 0:
			return "", nil
		}
		return string(res.Rows[0][0]), nil
	}
	// A schema that was created in advance, for a role that may not create one, is empty and counts
	// as missing.
	has, err := row(`select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where n.nspname = ` + "@channel@" + ` and c.relname = 'meta')`)
	if err != nil || has != "t" {
		return version{}, err
	}
	// A schema without a number has the first functions.
	text, err := row(`select (select value from @schema@.meta where name = 'version') || ' ' ||
		coalesce((select value from @schema@.meta where name = 'functions'), '1')`)
	if err != nil {
		return version{}, err
	}
	var v version
	_, err = fmt.Sscanf(text, "%d %d", &v.tables, &v.functions)
	if err != nil || v.tables < 1 || v.functions < 1 {
		return version{}, fmt.Errorf("%w: the schema %q was not made by distlock",
			driver.ErrUnavailable, s.opt.Schema)
	}
	return v, nil
}

// A server holds what the store knows about the server after the first connection.
type server struct {
	pooled bool // a pooler is in front of it: the backend may change between two statements
}

// prepare checks the server behind a new connection, and creates a missing schema. It succeeds once
// for all connections.
func (s *Store) prepare(ctx context.Context, conn *pgx.Conn) (*server, error) {
	// Other programs store the bytes of UTF-8. In another encoding a name is another key.
	if encoding := conn.PgConn().ParameterStatus("client_encoding"); encoding != "UTF8" && encoding != "" {
		return nil, fmt.Errorf("%w: postgres: client_encoding is %s, and must be UTF8", driver.ErrUnavailable, encoding)
	}
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
	v, err := look(ctx, conn)
	if err != nil {
		return nil, err
	}
	have, err := s.version(ctx, conn)
	if err != nil {
		return nil, err
	}
	if have.tables == 0 && !s.opt.Manual {
		if _, have, err = s.migrate(ctx, conn); err != nil {
			return nil, err
		}
	}
	switch {
	case have.tables < oldest, have.tables > layout:
		return nil, &SchemaError{Schema: s.opt.Schema, Have: have.tables, Want: layout}
	case have.functions < enough:
		return nil, &SchemaError{Schema: s.opt.Schema, Have: have.tables, Want: layout,
			Functions: have.functions}
	}
	s.ready.Store(v)
	return v, nil
}

// look reads the version of the server and the process id of the backend. If the backend is not the
// one that the connection was made to, there is a pooler.
func look(ctx context.Context, conn *pgx.Conn) (*server, error) {
	const sql = "select pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_version_num')"
	res := conn.PgConn().ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if res.Err != nil {
		return nil, definite(res.Err, false)
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 2 {
		return nil, sqlrow.ErrAnswer
	}
	number, err := strconv.Atoi(string(res.Rows[0][1]))
	if err != nil {
		return nil, sqlrow.ErrAnswer
	}
	if number < firstServer*10000 {
		return nil, fmt.Errorf("postgres: the server is PostgreSQL %d, and %d is the first that will do: %w: %w",
			number/10000, firstServer, driver.ErrUnavailable, errors.ErrUnsupported)
	}
	connected := strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
	return &server{pooled: string(res.Rows[0][0]) != connected}, nil
}

// newName returns a name for a prepared statement.
func newName() string { return "distlock_" + strings.ToLower(rand.Text()[:8]) }
