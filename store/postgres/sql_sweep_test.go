package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// begin opens a transaction on a connection of an SQL client. eval selects one boolean in it.
func begin(t *testing.T, url string, opt *postgres.Options) (eval func(sql string, args ...any) (bool, error), end func()) {
	t.Helper()
	c, eval := plainSQL(t, url, opt)
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end = func() { _ = tx.Rollback(context.Background()) } // no effect the second time
	t.Cleanup(end)
	return eval, end
}

// idle creates a schema with keys that a sweep deletes. No store has granted anything in it, so no
// store sweeps.
func idle(t *testing.T, srv *testenv.PostgresServer, s *postgres.Store, opt *postgres.Options) {
	t.Helper()
	if _, _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	query(t, srv, "insert into "+quoted(opt)+".key select 'job' || i, 1 from generate_series(0, 9) i")
}

// granted waits until a key is free: a sweep may have it for a moment.
func granted(t *testing.T, s driver.Store, key string) {
	t.Helper()
	eventually(t, key+" is granted", func() error {
		res, err := s.Acquire(t.Context(), exclusive(key))
		if err == nil && !res.Granted {
			err = errors.New("held by " + res.Blocker.Holder)
		}
		return err
	})
}

// A lock acquired in a transaction that stays open blocks this lock and no other one.
func TestSQL_acquireLockHoldsOneKey(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	idle(t, srv, s, opt)
	eval, _ := begin(t, srv.URL, opt)
	if ok, err := eval("select bool_and(Schema.acquire_lock('mine', 'py', 60)) from generate_series(1, 2000)"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := eval("select count(*) = 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"); err != nil || !ok {
		t.Errorf("a client that acquired one key has others too: %v", err)
	}
	granted(t, s, "job1")
}

// A sweep in a transaction that stays open: attempts on the deleted keys are refused until its end,
// and nobody waits or loses a lock.
func TestSQL_sweepInOpenTransaction(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	idle(t, srv, s, opt)
	_, eval := plainSQL(t, srv.URL+"&statement_timeout=10000", opt)
	held := exclusive("held")
	if ok, err := eval("select answer = '+' from Schema.acquire($1, $2, '1 min')", held.Key, held.Owner); err != nil || !ok {
		t.Fatal(ok, err)
	}
	query(t, srv, "insert into "+quoted(opt)+".observer values ('job1', '-infinity'), ('job2', '-infinity')")
	// A watch of job2 has locked the row: the sweep skips it.
	watching, _ := begin(t, srv.URL, opt)
	if _, err := watching("select count(*) = 1 from Schema.watch('job2', '1 min')"); err != nil {
		t.Fatal(err)
	}
	sweeping, end := begin(t, srv.URL, opt)
	if ok, err := sweeping("select Schema.sweep() = 10"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if ok, err := sweeping("select string_agg(key, ' ') = 'job2' from Schema.observer"); err != nil || !ok {
		t.Error("the sweep took what a watch has its hands on, or left what nobody has:", err)
	}
	if res := refuse(t, s, exclusive("job1")); !strings.Contains(res.Blocker.Holder, "transaction") {
		t.Errorf("refused with %+v, want the open transaction named", res)
	}
	var pg *pgconn.PgError
	if _, err := eval("select count(*) = 1 from Schema.watch('job1', '1 min')"); !errors.As(err, &pg) || pg.Code != "55P03" {
		t.Errorf("a watch of what a sweep drops: %v, want 55P03", err)
	}
	renew(t, s, held)
	granted(t, s, "new")
	end()
	granted(t, s, "job1")
	release(t, s, held)
}

// No function waits for long for a row or table that another transaction has locked.
func TestSQL_boundsItsWait(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	works(t, made(t, srv.URL, opt))
	locking, _ := begin(t, srv.URL, opt)
	for _, table := range []string{"key", "claim", "queue", "freed", "observer", "sweeper"} {
		if _, err := locking("lock table Schema." + table); err != nil &&
			!strings.Contains(err.Error(), "no rows") {
			t.Fatal(err)
		}
	}
	_, eval := plainSQL(t, srv.URL+"&statement_timeout=10000", opt)
	for _, call := range []string{
		"acquire_lock('n', 'h', 60)", "release_lock('n', 'h')", "acquire('n', 'o', '1 min')",
		"attempt('n', 'o', '1 min', 1, 1, null, 0, '', '', '{}', null, '', true)",
		`attempt_all('{n}', '{o}', '{1 min}', '{1}', '{1}', '{null}', '{0}', '{""}', '{""}', '{"{}"}', '{null}', '{""}', '{t}')`,
		"renew('n', 'o', '1 min')", "renew_all('{n}', '{o}', '{1 min}')", "release('n', 'o')", "release_all('{n}', '{o}')",
		"show('n')", "list('')", "break('n', 'why')", "watch('n', '1 min')", "sweep()",
	} {
		var pg *pgconn.PgError
		if _, err := eval("select count(*) = 0 from Schema." + call); !errors.As(err, &pg) ||
			pg.Code != "55P03" {
			t.Errorf("%s: %v, want 55P03", call, err)
		}
	}
}

// The reason of a broken claim stays for an hour at most: a record may live for ever.
func TestStore_Break_forgets(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	opt := fresh(t)
	s := made(t, srv.URL, opt)
	r := exclusive("record")
	grant(t, s, r)
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: 1000 * time.Hour, Keep: true}); err != nil {
		t.Fatal(err)
	}
	if broken, err := s.Break(t.Context(), r.Key, 0, "test"); err != nil || len(broken) != 1 {
		t.Fatal(broken, err)
	}
	if rows := query(t, srv, "select from "+quoted(opt)+".claim where ends > clock_timestamp() + interval '1 hour'"); len(rows) != 0 {
		t.Error("the row of the broken claim lives for as long as the record would have")
	}
}
