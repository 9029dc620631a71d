package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// A later program replaces the functions during a lease. A function that returns more columns does
// not fail. A function that returns another type fails one call, and the next call prepares its
// statement again.
func TestRenew_replacedFunctions(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	s := made(t, url, &postgres.Options{Schema: "distlock"})
	a, b := exclusive("a"), exclusive("b")
	grant(t, s, a)
	grant(t, s, b)
	renew := func() error {
		if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Minute}); err != nil {
			return fmt.Errorf("renew: %w", err)
		}
		for _, r := range s.RenewAll(t.Context(), []driver.Renewal{{ID: a.ID, TTL: time.Minute}, {ID: b.ID, TTL: time.Minute}}) {
			if r.Err != nil {
				return fmt.Errorf("renew_all: %w", r.Err)
			}
		}
		return nil
	}
	if err := renew(); err != nil {
		t.Fatal(err)
	}
	// replace gives both functions a body that returns a renewal with these columns.
	replace := func(columns, values string) {
		t.Helper()
		c, _ := plainSQL(t, url, &postgres.Options{Schema: "distlock"})
		for _, sql := range []string{
			"drop function distlock.renew(text, text, interval, bytea, boolean)", "drop function distlock.renew_all(text[], text[], interval[])",
			"create function distlock.renew(key text, owner text, ttl interval, value bytea, keep boolean) returns table (" + columns + ") language sql as $$ select " + values + " $$",
			"create function distlock.renew_all(keys text[], owners text[], ttls interval[]) returns table (" + columns + ") language sql as $$ select " + values + " from unnest(keys) $$",
		} {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace("answer text, behind bigint, reason text, more text", "'+', 0::bigint, null::text, 'x'")
	if err := renew(); err != nil {
		t.Errorf("with one more column: %v", err)
	}
	replace("answer text, behind int, reason text", "'+', 0, null::text")
	failed := 0
	for ; failed < 4; failed++ {
		if renew() == nil {
			break
		}
	}
	if failed == 0 || failed > 2 { // one for each statement
		t.Errorf("with a column of another type %d renewals failed, want one or two", failed)
	}
}

// The server closes the connections of an idle client, for example at a restart or after a timeout.
// The next call goes out on a new connection and does not fail, because the server has not executed
// it. The cases are a call that its caller sends, one too large for that, one whose statement is
// not prepared yet, and several at once.
func TestBatcher_closedByServer(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	s := made(t, srv.Database(t)+"&application_name=closed", nil)
	held := exclusive("held")
	grant(t, s, held)
	for _, tt := range []struct {
		name string
		next func(t *testing.T)
	}{
		{"a release that was not prepared", func(t *testing.T) { release(t, s, held) }},
		{"a small call", func(t *testing.T) { grant(t, s, exclusive("small")) }},
		{"a large call", func(t *testing.T) {
			r := exclusive("large")
			r.Value = bytes.Repeat([]byte{'v'}, 8<<10)
			grant(t, s, r)
		}},
		{"many calls", func(t *testing.T) {
			var wg sync.WaitGroup
			for i := range 20 {
				wg.Go(func() {
					if _, err := s.Acquire(t.Context(), exclusive(fmt.Sprint("many", i))); err != nil {
						t.Errorf("Acquire: %v", err)
					}
				})
			}
			wg.Wait()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			grant(t, s, exclusive("before "+tt.name)) // ensures a connection
			rows := query(t, srv, "select pg_terminate_backend(pid, 60000) from pg_stat_activity where application_name = 'closed'")
			if len(rows) == 0 || rows[0][0] != "t" {
				t.Fatalf("closed: %v", rows)
			}
			tt.next(t)
		})
	}
}

// The server closes the connection after the answer and before the commit. The outcome of the call
// is unknown: it is not repeated, and the error is not ErrUnavailable.
func TestBatcher_closedAtCommit(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	s := made(t, url, &postgres.Options{Schema: "distlock"})
	grant(t, s, exclusive("before"))
	c, _ := plainSQL(t, url, &postgres.Options{Schema: "distlock"})
	for _, sql := range []string{
		"create sequence distlock.commits",
		`create function distlock.last_words() returns trigger language plpgsql as $$ begin
			if nextval('distlock.commits') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if;
			return null;
		end $$`,
		"create constraint trigger last_words after insert on distlock.claim deferrable initially deferred for each row execute function distlock.last_words()",
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r := exclusive("key")
	res, err := s.Acquire(t.Context(), r)
	if err == nil || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("granted %v, error %v; want an unknown outcome", res.Granted, err)
	}
	grant(t, s, r)
}

// A store opened by a URL keeps no connection that it does not use, so a waiting process has few.
func TestOpen_connections(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	s, err := postgres.Open(t.Context(), url+"&application_name=frugal")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	count := func() string {
		return query(t, srv, "select count(*) from pg_stat_activity where application_name = 'frugal'")[0][0]
	}
	refuse(t, s, func() driver.Request { h := exclusive("key"); grant(t, made(t, url, nil), h); return exclusive("key") }())
	done := make(chan error, 8)
	for range cap(done) {
		go func() { _, err := s.Show(t.Context(), "key"); done <- err }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := count(); n != "1" && n != "2" {
		t.Errorf("%s connections, want one for claims, and one for all else that is soon closed", n)
	}
	eventually(t, "one connection is left", func() error {
		if n := count(); n != "1" {
			return fmt.Errorf("there are %s", n)
		}
		return nil
	})
}
