package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// A role with the permissions of docs/postgres.md can do everything except create the schema.
// Without them the error names the missing ones.
func TestSchema_rights(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	query(t, srv, "create role app login")
	app := on(t, srv.URL, "", "app")
	s := made(t, app, nil)
	_, err := s.Acquire(t.Context(), exclusive("key"))
	var schema *postgres.SchemaError
	if !errors.As(err, &schema) || schema.Have != 0 || schema.Err == nil ||
		!errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "distlock migrate") {
		t.Errorf("a role that may not create: %v, want a SchemaError with the cure", err)
	}
	admin := made(t, srv.URL, &postgres.Options{Manual: true})
	if _, err := admin.Acquire(t.Context(), exclusive("key")); !errors.As(err, &schema) ||
		schema.Err != nil {
		t.Errorf("a store that leaves the schema to others: %v, want a SchemaError", err)
	}
	if from, to, err := admin.Migrate(t.Context()); from != "" ||
		!strings.HasPrefix(to, "3.") || err != nil {
		t.Errorf("Migrate: %s, %s, %v", from, to, err)
	}
	if from, to, err := admin.Migrate(t.Context()); from != to ||
		!strings.HasPrefix(to, "3.") || err != nil {
		t.Errorf("Migrate again: %s, %s, %v", from, to, err)
	}
	if _, err := s.Acquire(t.Context(), exclusive("key")); !errors.Is(err, driver.ErrUnavailable) ||
		!strings.Contains(err.Error(), "42501") {
		t.Errorf("a role without rights: %v, want ErrUnavailable with 42501", err)
	}

	doc, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, grants, _ := strings.Cut(string(doc), "```sql\ngrant")
	grants, _, _ = strings.Cut(grants, "```")
	query(t, srv, "grant"+grants)
	a, w := exclusive("key"), queueing(exclusive("key"))
	grant(t, s, a)
	wake := s.Watch(t.Context(), w.ID)
	s.Watch(t.Context(), driver.ID{Key: "key"})
	refuse(t, s, w)
	renew(t, s, a)
	for _, got := range s.RenewAll(t.Context(), []driver.Renewal{{ID: a.ID, TTL: a.TTL}}) {
		if got.Err != nil || got.Behind != 1 {
			t.Errorf("RenewAll: %+v", got)
		}
	}
	drain(wake)
	if cs, err := s.Break(t.Context(), "key", 0, "why"); err != nil || len(cs) != 1 {
		t.Errorf("Break: %v, %v", cs, err)
	}
	woken(t, wake, "by Break")
	grant(t, s, w)
	release(t, s, w)
	if _, eval := plainSQL(t, app, &postgres.Options{Schema: "distlock"}); true {
		for _, sql := range []string{
			"select Schema.acquire_lock('n', 'h', 1)", "select Schema.release_lock('n', 'h')", "select Schema.sweep() >= 0",
			"select count(*) = 0 from Schema.locks", "select count(*) = 0 from Schema.waiters",
		} {
			if ok, err := eval(sql); err != nil || !ok {
				t.Errorf("%s: %v, %v", sql, ok, err)
			}
		}
	}
	info, err := s.Inspect(t.Context())
	if err != nil || !found(info, driver.LevelOK, "this role may read and write") ||
		!found(info, driver.LevelDanger, "fsync") {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
	query(t, srv, "revoke update on distlock.claim from app")
	if info, err = s.Inspect(t.Context()); err != nil || !found(info, driver.LevelDanger, "may not write") {
		t.Errorf("Inspect without rights: %+v, %v", info, err)
	}
}

// A newer schema is refused, and so are a schema from before the first release and a foreign one.
func TestSchema_foreign(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	works(t, made(t, srv.URL, opt))
	query(t, srv, "update "+quoted(opt)+".meta set value = '7' where name = 'version'")
	for name, err := range map[string]error{
		"Acquire": func() error { _, err := made(t, srv.URL, opt).Acquire(t.Context(), exclusive("key")); return err }(),
		"Migrate": func() error { _, _, err := made(t, srv.URL, opt).Migrate(t.Context()); return err }(),
		"Open": func() error {
			s, err := postgres.Open(t.Context(), srv.URL+"&lock_schema="+strings.NewReplacer(`"`, "%22", " ", "%20").Replace(opt.Schema))
			if err == nil {
				s.Close()
			}
			return err
		}(),
	} {
		var schema *postgres.SchemaError
		if !errors.As(err, &schema) || schema.Have != 7 || !errors.Is(err, driver.ErrUnavailable) ||
			!strings.Contains(err.Error(), "newer") {
			t.Errorf("%s on a newer schema: %v, want a SchemaError", name, err)
		}
	}
	query(t, srv, "update "+quoted(opt)+".meta set value = '1' where name = 'version'")
	for name, err := range map[string]error{
		"Acquire": func() error { _, err := made(t, srv.URL, opt).Acquire(t.Context(), exclusive("key")); return err }(),
		"Migrate": func() error { _, _, err := made(t, srv.URL, opt).Migrate(t.Context()); return err }(),
	} {
		var schema *postgres.SchemaError
		if !errors.As(err, &schema) || schema.Have != 1 || !errors.Is(err, driver.ErrUnavailable) ||
			!strings.Contains(err.Error(), "drop the schema") {
			t.Errorf("%s on a schema from before the first release: %v, want a SchemaError", name, err)
		}
	}
	query(t, srv, "update "+quoted(opt)+".meta set value = 'x' where name = 'version'")
	if _, err := made(t, srv.URL, opt).Acquire(t.Context(), exclusive("key")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "not made by distlock") {
		t.Errorf("a foreign schema: %v", err)
	}
	for _, name := range []string{strings.Repeat("s", 41), "a\x00"} {
		if _, err := postgres.New(pooled(t, srv.URL), &postgres.Options{Schema: name}); err == nil {
			t.Errorf("the schema %q was taken", name)
		}
	}
}

// Behind a pooler in transaction mode everything works except listening.
func TestStore_pgbouncer(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	if srv.PID() == 0 {
		srv = testenv.Postgres(t) // PgBouncer needs a server of our own
	}
	pooler := testenv.PgBouncer(t, srv, testenv.PoolTransaction,
		testenv.Config("default_pool_size = 3"))
	url := on(t, srv.URL, pooler.Addr, "")
	opt := &postgres.Options{Schema: "pooled"}
	a, b := made(t, url, opt), made(t, url, opt)
	works(t, a)
	x, w := exclusive("key"), queueing(exclusive("key"))
	x.Value, x.Meta = []byte{0, 1, 255}, map[string]string{"k": "v"}
	grant(t, a, x)
	brief := made(t, url, opt)
	brief.Brief()
	for _, s := range []*postgres.Store{b, brief} {
		if wake := s.Watch(t.Context(), w.ID); wake != nil {
			t.Error("Watch: a channel, want nil behind a pooler")
		}
	}
	works(t, brief)
	if res := refuse(t, b, w); string(res.Blocker.Value) != string(x.Value) ||
		res.Blocker.Meta["k"] != "v" {
		t.Errorf("the blocker is %+v", res.Blocker)
	}
	for range 10 {
		renew(t, b, x)
		if got := a.RenewAll(t.Context(), []driver.Renewal{{ID: x.ID, TTL: x.TTL}, {ID: w.ID, TTL: w.TTL}}); got[0].Err != nil || !errors.Is(got[1].Err, driver.ErrNotHeld) {
			t.Errorf("RenewAll: %+v", got)
		}
	}
	release(t, b, x)
	grant(t, b, w)
	var all []driver.Request
	for i := range 30 {
		all = append(all, exclusive(fmt.Sprint("k", i)))
		grant(t, []driver.Store{a, b}[i%2], all[i])
	}
	for i, r := range all {
		release(t, []driver.Store{a, b}[i/2%2], r)
	}
	info, err := b.Inspect(t.Context())
	if err != nil || !found(info, driver.LevelWarning, "pooler") {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
	// With an address of the server itself, notifications arrive.
	c := made(t, url, &postgres.Options{Schema: "pooled", Listen: srv.URL})
	v := queueing(exclusive("key"))
	wake := c.Watch(t.Context(), v.ID)
	refuse(t, c, v)
	drain(wake)
	release(t, a, w)
	woken(t, wake, "through a connection around the pooler")
	grant(t, c, v)
	if info, err := c.Inspect(t.Context()); err != nil || !found(info, driver.LevelOK, "LISTEN") {
		t.Errorf("Inspect: %+v, %v", info, err)
	}
}

// Functions that a caller's search_path puts before those of the server are not called.
func TestSQL_searchPath(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t, testenv.Shared()).Database(t)
	opt := &postgres.Options{Schema: "distlock"}
	s := made(t, url, opt)
	works(t, s)
	c, eval := plainSQL(t, url, opt)
	hostile := "create schema hostile; create table hostile.claim (); create table hostile.key ();"
	for _, f := range []string{
		"clock_timestamp() returns timestamptz", "pg_try_advisory_xact_lock(bigint) returns boolean", "pg_advisory_xact_lock(bigint) returns void",
		"hashtextextended(text, bigint) returns bigint", "starts_with(text, text) returns boolean", "encode(bytea, text) returns text",
		"convert_to(text, text) returns bytea", "sha256(bytea) returns bytea", "left(text, int) returns text", "random() returns float8",
		"current_setting(text) returns text", "times(numeric, int) returns numeric",
	} {
		hostile += "create function hostile." + f +
			" language plpgsql as $$ begin raise exception 'hostile'; end $$;"
	}
	// The server has no operator with these types, so this one is a better match than the intended
	// one.
	hostile += "create operator hostile.* (function = hostile.times, leftarg = numeric, rightarg = int); set search_path = hostile, pg_catalog"
	if _, err := c.Exec(t.Context(), hostile); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"select clock_timestamp() is null", "select extract(epoch from now()) * 1000000 > 0"} {
		if _, err := eval(bad); err == nil || !strings.Contains(err.Error(), "hostile") {
			t.Fatalf("%s: %v, want that it is hostile", bad, err)
		}
	}
	for _, call := range []string{
		"select Schema.acquire_lock('n', 'h', 60)", "select Schema.acquire_lock('n', 'h', 60)", "select not Schema.acquire_lock('n', 'other', 60)",
		"select answer = '-' from Schema.acquire('n', 'o', '1 min', queue_ttl => '1 min')",
		"select Schema.attempt('k', 'o', '1 min', 1, 1, null, 0, '', '', '{}', null, '', true) ~ '^[0-9]+$'",
		"select Schema.attempt_all('{a,b}', '{o,o}', '{1 min,1 min}', '{1,1}', '{1,1}', '{null,null}', '{0,0}', '{\"\",\"\"}', '{\"\",\"\"}', '{\"{}\",\"{}\"}', '{null,null}', '{\"\",\"\"}', '{t,t}') ~ '^[0-9]+$' limit 1",
		"select answer = '+' from Schema.renew('k', 'o', '1 min')",
		"select answer = '+' from Schema.renew_all('{k}', '{o}', '{1 min}')",
		"select count(*) = 1 from Schema.show('k')", "select count(*) = 4 from Schema.list('', 'a')",
		"select count(*) = 4 from Schema.locks where owner <> ''",
		"select count(*) = 1 from Schema.waiters where owner <> ''",
		"select count(*) = 1 from Schema.watch('k', '1 min')", "select Schema.sweep() >= 0",
		"select count(*) = 1 from Schema.break('a', 'why')",
		"select Schema.release('k', 'o')", "select Schema.release_all('{b}', '{o}')", "select Schema.release_lock('n', 'h')",
	} {
		if ok, err := eval(call); err != nil || !ok {
			t.Errorf("%s: %v, %v", call, ok, err)
		}
	}
}

// A function that turns enable_sort off turns jit off too. Otherwise a sort seems so expensive that
// the server compiles the statement each time, while all others wait for the key.
func TestFunctions_compiled(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t)
	works(t, made(t, srv.URL, nil))
	const these = "select count(*) from pg_proc where 'enable_sort=off' = any (proconfig)"
	for _, sql := range []string{these, these + " and 'jit=off' = any (proconfig)"} {
		if got := query(t, srv, sql)[0][0]; got != "4" {
			t.Errorf("%s: %s, want 4", sql, got)
		}
	}
}

// While another process migrates, a call that waits for it ends with its context.
func TestStore_check_ends(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	script, err := postgres.Migration(opt.Schema)
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	lock := regexp.MustCompile(`pg_advisory_xact_lock\((\d+)\)`).FindStringSubmatch(script)
	if _, err := c.Exec(t.Context(), "select pg_advisory_lock("+lock[1]+")"); err != nil {
		t.Fatal(err)
	}
	s := made(t, srv.URL, opt)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	first := make(chan struct{})
	go func() {
		defer close(first)
		_, _ = s.Show(ctx, "key") // waits for the lock
	}()
	defer func() { <-first }()
	defer cancel()
	eventually(t, "the first call waits", func() error {
		if rows := query(t, srv, "select from pg_locks where not granted and locktype = 'advisory' and (classid::bigint << 32 | objid::bigint) = "+lock[1]); len(rows) == 0 {
			return errors.New("nobody waits")
		}
		return nil
	})
	short, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	watch := testenv.NewStopwatch(t)
	if _, err := s.Show(short, "key"); err == nil {
		t.Error("Show returned before the tables were checked")
	}
	if took := watch.Elapsed(); took > 2*time.Second {
		t.Errorf("a call with a limit of 200 ms took %v", took)
	}
}
