package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/postgres"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Password("p@:/%w"))
	s, err := postgres.Open(t.Context(), srv.URL+"&lock_mode=table&lock_schema=locks&pool_max_conns=2")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	works(t, s)
	if rows := query(t, srv, "select count(*) from locks.meta"); rows[0][0] == "0" {
		t.Error("the schema locks is empty")
	}
	// The first host does not answer, the second is the primary.
	many := strings.Replace(srv.URL, srv.Addr, "127.0.0.1:1,"+srv.Addr, 1)
	m, err := postgres.Open(t.Context(), many)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	works(t, m)
	_, err = postgres.Open(t.Context(), strings.Replace(srv.URL, "p%40%3A%2F%25w", "wrong-pw", 1))
	if err == nil || errors.Is(err, postgres.ErrURL) || strings.Contains(err.Error(), "wrong-pw") {
		t.Errorf("with a wrong password: %v, want an error without it", err)
	}
	none := srv.Database(t)
	manual, err := postgres.Open(t.Context(), none+"&lock_migrate=false")
	if err != nil {
		t.Fatal(err)
	}
	defer manual.Close()
	var schema *postgres.SchemaError
	if _, err := manual.Acquire(t.Context(), exclusive("key")); !errors.As(err, &schema) {
		t.Errorf("with lock_migrate=false: %v, want a SchemaError", err)
	}
}

// A server that is down is not an error, and is found when it starts.
func TestOpen_gone(t *testing.T) {
	t.Parallel()
	const addr = "127.0.0.1:1" // a port that was closed may be in use by now
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := postgres.Open(ctx, "postgres://u:hunter22@"+addr+"/db?sslmode=disable")
	if err != nil {
		t.Fatal("a server that is down is no error:", err)
	}
	defer s.Close()
	_, err = s.Acquire(ctx, exclusive("key"))
	if !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("Acquire without a server: %v, want ErrUnavailable", err)
	}
	if wake := s.Watch(ctx, driver.ID{Key: "k", Owner: "o"}); wake != nil {
		t.Error("Watch without a server: a channel, want nil")
	}
}

func TestOpen_refuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://h":                                                     "postgres://",
		"postgres://u:hunter22@h:x/db":                                  "",
		"postgres://u:hunter22@h/db?lock_mod=1":                         "lock_mode, lock_schema",
		"postgres://u:hunter22@h/db?lock_mode=x":                        "table or advisory",
		"postgres://u:hunter22@h/db?lock_schema=a&lock_schema=b":        "twice",
		"postgres://u:hunter22@h/db?lock_migrate=maybe":                 "true or false",
		"postgres://u:hunter22@h/db?tls_skip_verify=1":                  "true or false",
		"postgres://u:hunter22@h/db?tls_cert=a":                         "go together",
		"postgres://u:hunter22@h/db?tls_ca=a&sslmode=disable":           "say the same",
		"postgres://u:hunter22@h/db?tls_x=a":                            "tls_ca",
		"postgres://u:hunter22@h/db?tls_ca=/none":                       "",
		"postgres://u:hunter22@h/db?lock_listen=postgres%3A%2F%2Fh%3Ax": "",
		"postgres://u:hunter22@h/db?lock_schema=%zz":                    "not well written",
		"postgres://u:hunter22@h/db?pool_max_conns=none":                "",
	} {
		s, err := postgres.Open(t.Context(), url)
		switch {
		case err == nil:
			s.Close()
			t.Errorf("%s was opened", url)
		case !errors.Is(err, postgres.ErrURL), !strings.Contains(err.Error(), want),
			strings.Contains(err.Error(), "hunter22"):
			t.Errorf("%s: %v, want an ErrURL with %q and without the password", url, err, want)
		}
	}
}
