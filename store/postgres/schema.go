package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
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
	functions = 4
	enough    = 2
)

// firstServer is the first version of PostgreSQL that can do all that the functions ask of it: functions whose body is
// read when they are made.
const firstServer = 14

//go:embed sql/*.sql
var files embed.FS

// A SchemaError says that the schema is missing, or is not of a version that this program can work with. It is a
// driver.ErrUnavailable: nothing was changed.
type SchemaError struct {
	Schema    string
	Have      int   // its version; 0: it is missing
	Want      int   // the version of this program
	Functions int   // the number of its functions, if they are older than this program needs; 0: they are not
	Err       error // why it could not be created; nil: it was not tried
}

func (e *SchemaError) Error() string {
	switch {
	case e.Have > e.Want:
		return fmt.Sprintf("postgres: the schema %q has version %d, and this program knows %d: use a newer program", e.Schema, e.Have, e.Want)
	case e.Functions > 0:
		return fmt.Sprintf("postgres: the schema %q has the functions of an older program, no. %d, and this one needs no. %d: run distlock migrate",
			e.Schema, e.Functions, enough)
	case e.Have > 0:
		return fmt.Sprintf("postgres: the schema %q has version %d, and this program needs %d: run distlock migrate", e.Schema, e.Have, e.Want)
	case e.Err != nil:
		return fmt.Sprintf("postgres: the schema %q is missing, and cannot be created: %v: run distlock migrate as a role that may", e.Schema, e.Err)
	}
	return fmt.Sprintf("postgres: the schema %q is missing: run distlock migrate", e.Schema)
}

// Is makes a SchemaError a driver.ErrUnavailable.
func (e *SchemaError) Is(target error) bool { return target == driver.ErrUnavailable }

// Unwrap returns why the schema could not be created.
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

// Migration returns the SQL by which Migrate creates a schema, for those who run it themselves. It is one transaction. An empty name
// is that of the default.
func Migration(schema string) (string, error) {
	n := namesOf(cmp.Or(schema, defaultSchema))
	steps, err := n.steps(0)
	if err != nil {
		return "", err
	}
	return "begin;\n" + steps + "commit;\n", nil
}

// steps returns the SQL that brings a schema from a version to the latest.
func (n *names) steps(from int) (string, error) {
	var b strings.Builder
	b.WriteString("set local search_path = pg_catalog;\n") // what is made here must not depend on who makes it
	for v := from + 1; v <= layout; v++ {
		text, err := files.ReadFile(fmt.Sprintf("sql/%04d.sql", v))
		if err != nil {
			return "", err
		}
		b.WriteString(n.sql(string(text)))
	}
	text, err := files.ReadFile("sql/functions.sql") // of the latest version; they replace those before
	if err != nil {
		return "", err
	}
	b.WriteString(n.sql(string(text)))
	if from == 0 {
		fmt.Fprintf(&b, `
insert into %[1]s.sweeper values ('');
insert into %[1]s.meta values ('identity', gen_random_uuid()::text), ('born', clock_timestamp()::text);
`, n.schema)
	}
	fmt.Fprintf(&b, `
insert into %s.meta as m values ('version', '%d'), ('functions', '%d') on conflict (name) do update set value = excluded.value;
`, n.schema, layout, functions)
	return b.String(), nil
}

// Migrate creates the schema, or brings it to the version of this program, and tells from which version to which. It may be called
// by many at once: one does it, and the others find it done. A newer schema is left alone, and is a *SchemaError.
func (s *Store) Migrate(ctx context.Context) (from, to int, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer closeConn(conn) //nolint:contextcheck // a connection is closed also when ctx is over
	if _, err := look(ctx, conn); err != nil {
		return 0, 0, err
	}
	if from, err = s.migrate(ctx, conn); err != nil {
		return from, from, err
	}
	return from, layout, nil
}

func (s *Store) migrate(ctx context.Context, conn *pgx.Conn) (from int, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return 0, definite(err, false)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	pg := conn.PgConn()
	exec := func(sql string) error { _, err := pg.Exec(ctx, sql).ReadAll(); return err }
	// Those who come at once stand in line here. The first creates, and the others see what it has committed.
	if err := exec(s.names.sql("select pg_advisory_xact_lock(@seed@)")); err != nil {
		return 0, definite(err, false)
	}
	have, err := s.version(ctx, conn)
	if err != nil {
		return 0, err
	}
	from = have.layout
	switch {
	case from > layout:
		return from, &SchemaError{Schema: s.opt.Schema, Have: from, Want: layout}
	case from == layout && have.functions >= functions:
		return from, nil
	}
	if encoding := pg.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return from, fmt.Errorf("%w: the encoding of the database is %s, and must be UTF8", driver.ErrUnavailable, encoding)
	}
	steps, err := s.names.steps(from)
	if err != nil {
		return from, err
	}
	if err := exec(steps); err != nil {
		return from, &SchemaError{Schema: s.opt.Schema, Have: from, Want: layout, Err: definite(err, false)}
	}
	if err := tx.Commit(ctx); err != nil {
		return from, definite(err, true)
	}
	return from, nil
}

// A version is that of a schema. The zero version is of one that is missing.
type version struct{ layout, functions int }

// version returns the version of the schema. It leaves a transaction as it is.
func (s *Store) version(ctx context.Context, conn *pgx.Conn) (version, error) {
	row := func(sql string) (string, error) {
		res := conn.PgConn().ExecParams(ctx, s.names.sql(sql), nil, nil, nil, nil).Read()
		if res.Err != nil {
			return "", definite(res.Err, false)
		}
		if len(res.Rows) == 0 {
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
	if _, err := fmt.Sscanf(text, "%d %d", &v.layout, &v.functions); err != nil || v.layout < 1 || v.functions < 1 {
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
	if have.layout == 0 && !s.opt.Manual {
		_, err := s.migrate(ctx, conn)
		var missing *SchemaError
		if err != nil && !errors.As(err, &missing) {
			return nil, err
		}
		if err != nil {
			return nil, missing
		}
		have = version{layout, functions}
	}
	switch {
	case have.layout < oldest, have.layout > layout:
		return nil, &SchemaError{Schema: s.opt.Schema, Have: have.layout, Want: layout}
	case have.functions < enough:
		return nil, &SchemaError{Schema: s.opt.Schema, Have: have.layout, Want: layout, Functions: have.functions}
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
