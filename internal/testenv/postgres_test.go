package testenv_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.Config("max_connections = 23"))
	is(t, fmt.Sprint(query(t, p, "show max_connections; show fsync; show full_page_writes")), "[[23] [off] [off]]")
	query(t, p, "create table t (v int); insert into t values (1)")
	p.Kill()
	if _, err := p.Query(t.Context(), "select 1"); err == nil {
		t.Error("it answers after Kill")
	}
	p.Restart()
	is(t, fmt.Sprint(query(t, p, "select v, null from t")), "[[1 ]]")
	p.Stop()
	p.Restart()
	is(t, fmt.Sprint(query(t, p, "select v from t")), "[[1]]")
	p.RestartEmpty()
	_, err := p.Query(t.Context(), "select v from t")
	var refused *testenv.PostgresError
	if !errors.As(err, &refused) || refused.Code != "42P01" {
		t.Errorf("the table after RestartEmpty: %v", err)
	}
}

func TestPostgres_password(t *testing.T) {
	t.Parallel()
	const secret = `p'w \1`
	p := testenv.Postgres(t, testenv.Password(secret), testenv.Fsync())
	is(t, fmt.Sprint(query(t, p, "show fsync")), "[[on]]")
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := u.User.Password()
	is(t, got, secret)
	wrong := &testenv.PostgresServer{Server: &testenv.Server{Addr: p.Addr}}
	wrong.URL = strings.Replace(p.URL, u.User.String(), "postgres:wrong", 1)
	_, err = wrong.Query(t.Context(), "select 1")
	var refused *testenv.PostgresError
	if !errors.As(err, &refused) || refused.Code != "28P01" {
		t.Errorf("a wrong password: %v", err)
	}

	standby := testenv.Postgres(t, testenv.StandbyOf(p))
	is(t, query(t, standby, "select pg_is_in_recovery()")[0][0], "t")
	b := testenv.PgBouncer(t, p, testenv.PoolTransaction)
	is(t, query(t, b, "select 1")[0][0], "1")
}

func TestPostgres_standby(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.Config("max_connections = 150"))
	query(t, p, "create table t (v int)")
	s := testenv.Postgres(t, testenv.StandbyOf(p))
	query(t, p, "insert into t values (5)")
	eventually(t, 10*time.Second, "the row arrives", func() bool {
		return fmt.Sprint(query(t, s, "select v from t")) == "[[5]]"
	})
	_, err := s.Query(t.Context(), "insert into t values (6)")
	var refused *testenv.PostgresError
	if !errors.As(err, &refused) || refused.Code != "25006" {
		t.Errorf("a write to the standby: %v", err)
	}
	s.Restart()
	p.Kill()
	s.Promote()
	query(t, s, "insert into t values (6)")
}

func TestPostgres_shared(t *testing.T) {
	p := testenv.Postgres(t, testenv.Shared())
	q := testenv.Postgres(t, testenv.Shared())
	is(t, p.Addr, q.Addr)
	var name string
	t.Run("database", func(t *testing.T) {
		u, err := url.Parse(p.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimPrefix(u.Path, "/")
		is(t, fmt.Sprint(query(t, p, "select count(*) from pg_database where datname = '"+name+"'")), "[[1]]")
	})
	is(t, fmt.Sprint(query(t, p, "select count(*) from pg_database where datname = '"+name+"'")), "[[0]]")
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t, testenv.Shared())
	b := testenv.PgBouncer(t, p, testenv.PoolTransaction, testenv.Config("default_pool_size = 1"))
	is(t, query(t, b, "select 42")[0][0], "42")
	// There is one server connection for all clients: in transaction mode they share its session.
	pid := query(t, b, "select pg_backend_pid()")[0][0]
	is(t, query(t, b, "select pg_backend_pid()")[0][0], pid)
	is(t, query(t, b, "select pg_try_advisory_lock(1)")[0][0], "t")
	is(t, query(t, b, "select pg_try_advisory_lock(1)")[0][0], "t")

	direct := testenv.PgBouncer(t, p, testenv.PoolSession)
	is(t, query(t, direct, "select pg_try_advisory_lock(1)")[0][0], "f")
	b.Kill()
	b.Restart()
	is(t, query(t, b, "select 43")[0][0], "43")
}
