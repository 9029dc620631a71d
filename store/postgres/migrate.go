package postgres

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
)

//go:embed sql/*.sql
var files embed.FS

// Migration returns the SQL with which [Store.Migrate] creates a schema or migrates it to the
// version of this program, for operators who run it themselves. The SQL is one transaction and may
// run again: it keeps existing data, and fails on a newer schema. An empty name means the default
// schema.
func Migration(schema string) (string, error) {
	n := namesOf(cmp.Or(schema, defaultSchema))
	steps, err := n.steps()
	if err != nil {
		return "", err
	}
	return "begin isolation level read committed;\n" + steps + "commit;\n", nil
}

// steps returns the SQL that migrates a schema of any version to the latest.
func (n *names) steps() (string, error) {
	var do strings.Builder
	do.WriteString(n.sql(fmt.Sprintf(firstSteps, layout, layout, first, layout)))
	step := func(unless, file, after string) error {
		text, err := files.ReadFile("sql/" + file)
		if err == nil {
			fmt.Fprintf(&do, "  if %s then\n    execute %s;\n  end if;\n", unless,
				dollars("step", "\n"+n.sql(string(text)+after)))
		}
		return err
	}
	for v := first; v <= layout; v++ {
		if err := step(fmt.Sprintf("tables < %d", v), fmt.Sprintf("%04d.sql", v), ""); err != nil {
			return "", err
		}
	}
	// The functions belong to the latest tables and replace older functions.
	if err := step(fmt.Sprintf("tables < %d or functions < %d", layout, functions), "functions.sql",
		fmt.Sprintf(setVersion, layout, functions)); err != nil {
		return "", err
	}
	do.WriteString("end\n")
	// The result must not depend on the settings of the caller.
	return "set local search_path = pg_catalog;\nset local quote_all_identifiers = off;\ndo " + dollars("migrate", do.String()) + ";\n", nil
}

// firstSteps reads the current version. Concurrent migrations wait for each other: the first one
// creates the schema, and the others see the committed result.
const firstSteps = `
declare
  tables    int := 0; -- their version
  functions int := 0; -- their number; the first functions recorded none
begin
  perform pg_advisory_xact_lock(@seed@);
  if exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = @channel@ and c.relname = 'meta') then
    tables := (select value from @schema@.meta where name = 'version');
    functions := coalesce((select value from @schema@.meta where name = 'functions'), '1');
  end if;
  if tables is null then
    raise exception 'the schema was not made by distlock';
  elsif tables > %d then
    raise exception 'the schema has version %%, and this script knows %d: use the script of a newer program', tables;
  elsif tables > 0 and tables < %d then
    raise exception 'the schema has version %%, from before the first release, and this script creates %d: drop the schema, or use another one', tables;
  elsif current_setting('server_encoding') <> 'UTF8' then
    raise exception 'the encoding of the database is %%, and must be UTF8', current_setting('server_encoding');
  end if;
  -- "If not exists" needs the permission to create schemas even if the schema exists, and its owner
  -- may not have it.
  if not exists (select from pg_namespace n where n.nspname = @channel@) then
    create schema @schema@;
  end if;
`

// setVersion records the new version.
const setVersion = `
insert into @schema@.sweeper select '' where not exists (select from @schema@.sweeper);
insert into @schema@.meta values ('identity', gen_random_uuid()::text), ('born', clock_timestamp()::text) on conflict (name) do nothing;
insert into @schema@.meta values ('version', '%d'), ('functions', '%d') on conflict (name) do update set value = excluded.value;
`

// dollars quotes a text, which may itself contain dollar quotes.
func dollars(tag, text string) string {
	for strings.Contains(text, "$"+tag+"$") {
		tag += "_"
	}
	return "$" + tag + "$" + text + "$" + tag + "$"
}

// Migrate creates the schema, or migrates it to the version of this program. It returns the old and
// the new version: the version of the tables, a dot, and the number of the functions. An empty
// version means that there was no schema. Concurrent calls are safe: one migrates, and the others
// find the schema migrated. Migrate does not change a newer schema and returns a [*SchemaError]. It
// does not change newer functions either.
func (s *Store) Migrate(ctx context.Context) (from, to string, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return "", "", err
	}
	defer closeConn(conn) //nolint:contextcheck // the connection is closed even if ctx has ended
	if _, err := look(ctx, conn); err != nil {
		return "", "", err
	}
	was, is, err := s.migrate(ctx, conn)
	return was.String(), is.String(), err
}

// migrate returns the version before and the version after. After an error they are equal.
func (s *Store) migrate(ctx context.Context, conn *pgx.Conn) (was, is version, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return was, was, definite(err, false)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // no effect after a commit
	pg := conn.PgConn()
	exec := func(sql string) error { _, err := pg.Exec(ctx, sql).ReadAll(); return err }
	// Concurrent migrations wait for each other here already, so that each one can return what it
	// did.
	if err := exec(s.names.sql("select pg_advisory_xact_lock(@seed@)")); err != nil {
		return was, was, definite(err, false)
	}
	if was, err = s.version(ctx, conn); err != nil {
		return was, was, err
	}
	switch {
	case was.tables > layout, was.tables > 0 && was.tables < first:
		return was, was, &SchemaError{Schema: s.opt.Schema, Have: was.tables, Want: layout}
	case was.tables == layout && was.functions >= functions:
		return was, was, nil
	}
	if encoding := pg.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return was, was, fmt.Errorf("%w: the encoding of the database is %s, and must be UTF8",
			driver.ErrUnavailable, encoding)
	}
	steps, err := s.names.steps()
	if err != nil {
		return was, was, err
	}
	if err := exec(steps); err != nil {
		return was, was, &SchemaError{Schema: s.opt.Schema, Have: was.tables, Want: layout,
			Functions: was.functions, Err: definite(err, false)}
	}
	if err := tx.Commit(ctx); err != nil {
		return was, was, definite(err, true)
	}
	return was, version{layout, functions}, nil
}
