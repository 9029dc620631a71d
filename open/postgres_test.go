package open_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func TestOpen_postgres(t *testing.T) {
	srv := testenv.Postgres(t, testenv.Password("s3cret/@:%"))
	s := use(t, srv.URL+"&lock_schema=a&lock_ttl=7s")
	if name := s.Store.Features().Name; name != "postgres" {
		t.Error("it is called", name)
	}
	finds(t, s, "ok: traffic stays on this host")
	use(t, strings.Replace(srv.URL, "postgres://", "postgresql://", 1)+"&lock_mode=table")
	wrong := strings.Replace(srv.URL, "s3cret%2F%40%3A%25", "wrong-pass", 1)
	if _, err := open.Open(t.Context(), wrong); err == nil || strings.Contains(err.Error(), "wrong-pass") || errors.Is(err, open.ErrURL) {
		t.Error("with a wrong password:", err)
	}
	for url, want := range map[string]string{
		"postgres://u:hunter22@h/db?lock_mode=x":   "table or advisory",
		"postgres://u:hunter22@h/db?lock_schem=x":  "lock_schema",
		"postgress://u:hunter22@h/db":              "did you mean postgres?",
		"postgres://u:hunter22@h/db?tls_cert=none": "go together",
	} {
		if _, err := open.Open(t.Context(), url); !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v, want an ErrURL with %q", url, err, want)
		}
	}
}

// The URL alone shows these findings, without a connection.
func TestOpen_postgres_transport(t *testing.T) {
	const gone = "postgres://127.0.0.1:1,10.255.255.1:1/db?connect_timeout=1&"
	for url, want := range map[string]string{
		gone + "sslmode=disable":                         "warning: traffic may not be encrypted",
		gone + "sslmode=require":                         "warning: the certificate of the server is not checked",
		gone + "sslmode=verify-full":                     "ok: traffic is encrypted",
		gone + "tls_skip_verify=true":                    "warning: the certificate of the server is not checked",
		"postgres:///db?host=/nowhere&connect_timeout=1": "ok: traffic stays on this host (a socket)",
	} {
		s, err := open.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		finds(t, s, want)
		s.Close()
	}
}

func TestMigrate(t *testing.T) {
	srv := testenv.Postgres(t, testenv.Shared())
	url := srv.Database(t)
	if from, to, err := open.Migrate(t.Context(), url); from != "" || !strings.HasPrefix(to, "3.") || err != nil {
		t.Error(from, to, err)
	}
	if from, to, err := open.Migrate(t.Context(), url+"&lock_migrate=true"); from != to || !strings.HasPrefix(to, "3.") || err != nil {
		t.Error(from, to, err)
	}
	use(t, url+"&lock_migrate=false")
	for _, other := range []string{"memory:", "sqlite://" + t.TempDir() + "/a.db"} {
		if _, _, err := open.Migrate(t.Context(), other); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", other, err)
		}
		if _, err := open.Migration(other); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", other, err)
		}
	}
	if sql, err := open.Migration(url + "&lock_schema=mine"); err != nil || !strings.Contains(sql, `"mine".claim`) {
		t.Error(err)
	}
}
