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
)

// layout is the version of the schema that this package writes, and oldest the first that it can work with. functions is the
// number of the functions, and enough the first that do all that this package asks of them: so do all later ones.
const (
	layout    = 1
	oldest    = 1
	functions = 8
	enough    = 8
)

// noRight is the SQLSTATE of what a role may not do.
const noRight = "42501"

// firstServer is the first version of PostgreSQL that can do all that the functions ask of it: functions whose body is
// read when they are made.
const firstServer = 14

// A SchemaError says that the schema is missing, cannot be read, or is not of a version that this program can work with. It is a
// driver.ErrUnavailable: nothing was changed.
type SchemaError struct {
	Schema    string
	Have      int   // its version; 0: it is missing; -1: this role may not read it
	Want      int   // the version of this program
	Functions int   // the number of its functions, if they are older than this program needs, or could not be replaced; 0: they are not
	Err       error // why it could not be read, created, or brought to that version; nil: it was not tried
}

func (e *SchemaError) Error() string {
	what, cure := e.tell()
	return "postgres: " + what + ": " + cure
}

// Finding says the same for people who look at the store.
func (e *SchemaError) Finding() driver.Finding {
	what, cure := e.tell()
	return driver.Finding{Level: driver.Danger, What: what, Means: "nothing can be claimed", Cure: cure}
}

// tell says what is the matter, and what to do.
func (e *SchemaError) tell() (what, cure string) {
	const migrate, owner = "run distlock migrate", " as the owner of the schema"
	schema := fmt.Sprintf("the schema %q ", e.Schema)
	switch {
	case e.Have < 0:
		return schema + fmt.Sprintf("cannot be read by this role: %v", e.Err), "grant it the rights of docs/postgres.md"
	case e.Have > e.Want:
		return schema + fmt.Sprintf("has version %d, and this program knows %d", e.Have, e.Want), "use a newer program"
	case e.Have > 0 && e.Err != nil:
		what = schema + fmt.Sprintf("has version %v, and cannot be brought to %v: %v", version{e.Have, e.Functions}, version{e.Want, functions}, e.Err)
		if code(e.Err) == noRight {
			return what, migrate + owner
		}
		return what, "mend that, and " + migrate
	case e.Functions > 0:
		return schema + fmt.Sprintf("has the functions of an older program, no. %d, and this one needs no. %d", e.Functions, enough), migrate + owner
	case e.Have > 0:
		return schema + fmt.Sprintf("has version %d, and this program needs %d", e.Have, e.Want), migrate + owner
	case e.Err != nil:
		return schema + fmt.Sprintf("is missing, and cannot be created: %v", e.Err), migrate + " as a role that may"
	}
	return schema + "is missing", migrate
}

// Is makes a SchemaError a driver.ErrUnavailable.
func (e *SchemaError) Is(target error) bool { return target == driver.ErrUnavailable }

// Unwrap returns Err.
func (e *SchemaError) Unwrap() error { return e.Err }

// names are what stands for the schema in SQL.
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
	n.replace = strings.NewReplacer("@schema@", n.schema, "@channel@", literal, "@seed@", strconv.FormatInt(int64(seed.Sum64()>>1), 10))
	return n
}

// sql fills in the names.
func (n *names) sql(text string) string { return n.replace.Replace(text) }

// A version is that of a schema. The zero version is of one that is missing.
type version struct{ tables, functions int }

func (v version) String() string {
	if v == (version{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", v.tables, v.functions)
}

// version returns the version of the schema. It leaves a transaction as it is.
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
	// A schema that others made in advance, for a role that may not, is empty: it is as good as none.
	has, err := row(`select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where n.nspname = ` + "@channel@" + ` and c.relname = 'meta')`)
	if err != nil || has != "t" {
		return version{}, err
	}
	// The functions have had a number since the second.
	text, err := row(`select (select value from @schema@.meta where name = 'version') || ' ' ||
		coalesce((select value from @schema@.meta where name = 'functions'), '1')`)
	if err != nil {
		return version{}, err
	}
	var v version
	if _, err := fmt.Sscanf(text, "%d %d", &v.tables, &v.functions); err != nil || v.tables < 1 || v.functions < 1 {
		return version{}, fmt.Errorf("%w: the schema %q was not made by distlock", driver.ErrUnavailable, s.opt.Schema)
	}
	return v, nil
}

// A server is what is known of the server once it was reached.
type server struct {
	pooled bool // there is a pooler before it: a connection is not the same backend from one statement to the next
}

// prepare looks at the server behind a new connection, and creates the schema if it is missing. It does so once for all
// connections, and again until it has succeeded.
func (s *Store) prepare(ctx context.Context, conn *pgx.Conn) (*server, error) {
	if v := s.ready.Load(); v != nil {
		return v, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
		return nil, &SchemaError{Schema: s.opt.Schema, Have: have.tables, Want: layout, Functions: have.functions}
	}
	s.ready.Store(v)
	return v, nil
}

// look asks the server for its version, and for the process that serves us: if that is not the one that we connected to, there is a pooler.
func look(ctx context.Context, conn *pgx.Conn) (*server, error) {
	const sql = "select pg_catalog.pg_backend_pid(), pg_catalog.current_setting('server_version_num')"
	res := conn.PgConn().ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if res.Err != nil {
		return nil, definite(res.Err, false)
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 2 {
		return nil, errAnswer
	}
	number, err := strconv.Atoi(string(res.Rows[0][1]))
	if err != nil {
		return nil, errAnswer
	}
	if number < firstServer*10000 {
		return nil, fmt.Errorf("postgres: the server is PostgreSQL %d, and %d is the first that will do: %w: %w",
			number/10000, firstServer, driver.ErrUnavailable, errors.ErrUnsupported)
	}
	return &server{pooled: string(res.Rows[0][0]) != strconv.FormatUint(uint64(conn.PgConn().PID()), 10)}, nil
}

// newName returns a name for a prepared statement.
func newName() string { return "distlock_" + strings.ToLower(rand.Text()[:8]) }
