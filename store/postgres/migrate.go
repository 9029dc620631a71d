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

// Migration returns the SQL by which Migrate creates a schema or brings it to the version of this program, for those who run it themselves. It is
// one transaction, and may be run again: what is there already stays, and a newer schema is an error. An empty name is that of the default.
func Migration(schema string) (string, error) {
	n := namesOf(cmp.Or(schema, defaultSchema))
	steps, err := n.steps()
	if err != nil {
		return "", err
	}
	return "begin isolation level read committed;\n" + steps + "commit;\n", nil
}

// steps returns the SQL that brings a schema of any version to the latest.
func (n *names) steps() (string, error) {
	var do strings.Builder
	do.WriteString(n.sql(fmt.Sprintf(firstSteps, layout, layout)))
	step := func(unless, file, after string) error {
		text, err := files.ReadFile("sql/" + file)
		if err == nil {
			fmt.Fprintf(&do, "  if %s then\n    execute %s;\n  end if;\n", unless, dollars("step", "\n"+n.sql(string(text)+after)))
		}
		return err
	}
	for v := 1; v <= layout; v++ {
		if err := step(fmt.Sprintf("tables < %d", v), fmt.Sprintf("%04d.sql", v), ""); err != nil {
			return "", err
		}
	}
	// The functions are those of the latest tables; they replace those before.
	if err := step(fmt.Sprintf("tables < %d or functions < %d", layout, functions), "functions.sql", fmt.Sprintf(setVersion, layout, functions)); err != nil {
		return "", err
	}
	do.WriteString("end\n")
	// What is made here must not depend on who makes it.
	return "set local search_path = pg_catalog;\ndo " + dollars("migrate", do.String()) + ";\n", nil
}

// firstSteps finds out what is there. Those who come at once stand in line: the first creates, and the others see what it has committed.
const firstSteps = `
declare
  tables    int := 0; -- their version
  functions int := 0; -- their number; they have had one since the second
begin
  perform pg_advisory_xact_lock(@seed@);
  if exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = @channel@ and c.relname = 'meta') then
    tables := (select value from @schema@.meta where name = 'version');
    functions := coalesce((select value from @schema@.meta where name = 'functions'), '1');
  end if;
  if tables is null then
    raise exception 'the schema was not made by distlock';
  elsif tables > %d then
    raise exception 'the schema has version %%, and this script knows %d: use that of a newer program', tables;
  elsif current_setting('server_encoding') <> 'UTF8' then
    raise exception 'the encoding of the database is %%, and must be UTF8', current_setting('server_encoding');
  end if;
  -- "If not exists" asks for the right to create schemas also where it exists: its owner may have no other rights.
  if not exists (select from pg_namespace n where n.nspname = @channel@) then
    create schema @schema@;
  end if;
`

// setVersion notes what was made.
const setVersion = `
insert into @schema@.sweeper select '' where not exists (select from @schema@.sweeper);
insert into @schema@.meta values ('identity', gen_random_uuid()::text), ('born', clock_timestamp()::text) on conflict (name) do nothing;
insert into @schema@.meta values ('version', '%d'), ('functions', '%d') on conflict (name) do update set value = excluded.value;
`

// dollars quotes a text, which may have any such quotes in it.
func dollars(tag, text string) string {
	for strings.Contains(text, "$"+tag+"$") {
		tag += "_"
	}
	return "$" + tag + "$" + text + "$" + tag + "$"
}

// Migrate creates the schema, or brings it to the version of this program, and tells from which version to which: that of the tables, a dot, and the
// number of the functions; empty: there was none. It may be called by many at once: one does it, and the others find it done. A newer schema is left
// alone, and is a *SchemaError; newer functions are left alone, too.
func (s *Store) Migrate(ctx context.Context) (from, to string, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return "", "", err
	}
	defer closeConn(conn) //nolint:contextcheck // a connection is closed also when ctx is over
	if _, err := look(ctx, conn); err != nil {
		return "", "", err
	}
	was, is, err := s.migrate(ctx, conn)
	return was.String(), is.String(), err
}

// migrate tells what was there, and what is. After an error they are the same.
func (s *Store) migrate(ctx context.Context, conn *pgx.Conn) (was, is version, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return was, was, definite(err, false)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	pg := conn.PgConn()
	exec := func(sql string) error { _, err := pg.Exec(ctx, sql).ReadAll(); return err }
	// Those who come at once stand in line here already, so that each can tell what it did.
	if err := exec(s.names.sql("select pg_advisory_xact_lock(@seed@)")); err != nil {
		return was, was, definite(err, false)
	}
	if was, err = s.version(ctx, conn); err != nil {
		return was, was, err
	}
	switch {
	case was.tables > layout:
		return was, was, &SchemaError{Schema: s.opt.Schema, Have: was.tables, Want: layout}
	case was.tables == layout && was.functions >= functions:
		return was, was, nil
	}
	if encoding := pg.ParameterStatus("server_encoding"); encoding != "UTF8" {
		return was, was, fmt.Errorf("%w: the encoding of the database is %s, and must be UTF8", driver.ErrUnavailable, encoding)
	}
	steps, err := s.names.steps()
	if err != nil {
		return was, was, err
	}
	if err := exec(steps); err != nil {
		return was, was, &SchemaError{Schema: s.opt.Schema, Have: was.tables, Want: layout, Functions: was.functions, Err: definite(err, false)}
	}
	if err := tx.Commit(ctx); err != nil {
		return was, was, definite(err, true)
	}
	return was, version{layout, functions}, nil
}
