package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

// A later program replaces the functions under a lease. One that returns more columns is no reason
// to fail; one that returns another type fails a call, and the next one prepares its statement
// again.
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
	// replace gives both functions a body that renews, and says so with these columns.
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

// A store that was opened by a URL keeps no connection that it does not use: a waiting process has
// few.
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
