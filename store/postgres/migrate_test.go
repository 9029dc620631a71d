package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// The script of Migration may run again: it creates a missing schema, replaces older functions, and
// changes nothing newer.
func TestMigration_again(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := &postgres.Options{Schema: fresh(t).Schema + "$step$", Manual: true}
	script, err := postgres.Migration(opt.Schema)
	if err != nil {
		t.Fatal(err)
	}
	// the settings of the role have no effect
	url := srv.URL + "&default_transaction_isolation=serializable"
	run := func() error {
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		_, err = c.PgConn().Exec(t.Context(), script).ReadAll()
		return err
	}
	eval := func(sql string) string {
		rows := query(t, srv, strings.ReplaceAll(sql, "Schema", quoted(opt)))
		if len(rows) == 0 {
			return ""
		}
		return rows[0][0]
	}
	const meta, body = "select string_agg(name || '=' || value, ' ' order by name) from Schema.meta",
		"select Schema.tag('x')"
	if err := run(); err != nil {
		t.Fatal("on an empty database:", err)
	}
	s := made(t, srv.URL, opt)
	a := exclusive("held")
	fence := grant(t, s, a).Fence
	was := eval(meta)
	if from, to, err := s.Migrate(t.Context()); from != to || err != nil {
		t.Errorf("Migrate after the script: %s, %s, %v", from, to, err)
	}
	for _, tt := range []struct {
		name, before string
		replaced     bool
		fails        string
	}{
		{"the same", "", false, ""},
		{"functions with no number", "delete from Schema.meta where name = 'functions'", true, ""},
		{"older functions", "update Schema.meta set value = '2' where name = 'functions'", true, ""},
		{"newer functions", "update Schema.meta set value = '99' where name = 'functions'", false, ""},
		{"newer tables", "update Schema.meta set value = '99' where name = 'version'",
			false, "newer program"},
		{"layout 1",
			"update Schema.meta set value = '1' where name = 'version'", false, "before the first release"},
		{"layout 2",
			"update Schema.meta set value = '2' where name = 'version'", false, "before the first release"},
		{"foreign tables", "delete from Schema.meta where name = 'version'", false,
			"not made by distlock"},
	} {
		eval("create or replace function Schema.tag(owner text) returns text language sql return 'old'")
		eval(tt.before)
		before := eval(meta)
		if err := run(); tt.fails == "" && err != nil ||
			tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if after := eval(meta); tt.replaced != (eval(body) != "old") || tt.replaced && after != was ||
			!tt.replaced && after != before {
			t.Errorf("%s: meta was %s and is %s, replaced is %v", tt.name, before,
				after, eval(body) != "old")
		}
	}
	eval("insert into Schema.meta values ('version', '3')")
	if again := grant(t, made(t, srv.URL, opt), a); again.Fence != fence {
		t.Errorf("fence %d, want %d: what was held is gone", again.Fence, fence)
	}
}

// A role that may use the schema but does not own it gets the reason why it cannot replace the
// functions, and the role that can.
func TestMigrate_notOwner(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	works(t, made(t, srv.URL, nil))
	for _, sql := range []string{
		"create role app login", "grant usage on schema distlock to app", "grant select, insert, update, delete on all tables in schema distlock to app",
		"delete from distlock.meta where name = 'functions'",
	} {
		query(t, srv, sql)
	}
	from, to, err := made(t, on(t, srv.URL, "", "app"), nil).Migrate(t.Context())
	var schema *postgres.SchemaError
	if !errors.As(err, &schema) || schema.Err == nil || schema.Functions != 1 ||
		!errors.Is(err, driver.ErrUnavailable) || from != to {
		t.Fatalf("Migrate: %s, %s, %v, want a SchemaError with its cause", from, to, err)
	}
	for _, want := range []string{"has version 3.1", "42501", "as the owner"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: says nothing of %q", err, want)
		}
	}
}

// A role that may not create schemas creates the tables in a schema made for it.
func TestMigrate_givenSchema(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	query(t, srv, "create role app login")
	query(t, srv, "create schema distlock authorization app")
	works(t, made(t, on(t, srv.URL, "", "app"), nil))
}
