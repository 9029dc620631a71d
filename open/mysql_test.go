package open_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func TestOpen_mysql(t *testing.T) {
	srv := testenv.MariaDB(t, testenv.Password("s3cret/@:%'"))
	s := use(t, srv.URL+"?lock_ttl=7s&lock_conns=2")
	if name := s.Store.Features().Name; name != "mysql" {
		t.Error("it is called", name)
	}
	finds(t, s, "ok: traffic stays on this host")
	use(t, strings.Replace(srv.URL, "mysql://", "mariadb://", 1)+"?lock_migrate=false&tls=false")
	for what, url := range map[string]string{
		"a wrong password": strings.Replace(srv.URL, "s3cret", "wrong-pass", 1),
		"no such database": srv.URL + "-wrong-pass",
	} {
		if _, err := open.Open(t.Context(), url); err == nil || strings.Contains(err.Error(), "s3cret") || errors.Is(err, open.ErrURL) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if from, to, err := open.Migrate(t.Context(), srv.URL); from != to || to != "1.1" || err != nil {
		t.Error(from, to, err)
	}
	url := srv.Database(t)
	if from, to, err := open.Migrate(t.Context(), url+"?lock_migrate=true"); from != "" || to != "1.1" || err != nil {
		t.Error(from, to, err)
	}
	if sql, err := open.Migration(url); err != nil || !strings.Contains(sql, "PROCEDURE distlock_acquire(") {
		t.Error(err)
	}
}

func TestOpen_mysql_refuses(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://u:hunter22@h":                              "database",
		"mysql://h/db":                                      "user",
		"mysql://u:hunter22@/db":                            "one host",
		"mysql://u:hunter22@h:0/db":                         "port",
		"mysql://u:hunter%zz22@h/db":                        "%25",
		"mysql://u:hunter22@a,b/db":                         "one host",
		"mysql://u:hunter22@h/db?lock_migrat=x":             "lock_migrate",
		"mysql://u:hunter22@h/db?lock_conns=0":              "lock_conns",
		"mysql://u:hunter22@h/db?tls=yes":                   "preferred",
		"mysql://u:hunter22@h/db?tls=false&tls_ca=x":        "tls=false",
		"mysql://u:hunter22@h/db?tls_cert=none":             "go together",
		"mysql://u:hunter22@h/db?tls_ca=nosuch.pem":         "tls_ca",
		"mysql://u:hunter22@h/db?socket=/s":                 "give one",
		"mysql://u:hunter22@h/db?tls=true&tls=true":         "twice",
		"mysqll://u:hunter22@h/db":                          "did you mean mysql?",
		"mariadb://u:hunter22@h/db?tls_skip_verify=perhaps": "tls_skip_verify",
	} {
		if _, err := open.Open(t.Context(), url); !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v, want an ErrURL with %q", url, err, want)
		}
	}
}

// The URL alone shows these findings, without a connection.
func TestOpen_mysql_transport(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://u:p@nowhere.invalid:1/db":                      "warning: traffic is not encrypted",
		"mysql://u:p@127.0.0.1:1/db":                            "ok: traffic stays on this host",
		"mysql://u:p@nowhere.invalid:1/db?tls=true":             "ok: traffic is encrypted",
		"mysql://u:p@nowhere.invalid:1/db?tls_skip_verify=true": "warning: the certificate of the server is not checked",
		"mysql://u:p@/db?socket=/nowhere":                       "ok: traffic stays on this host (a socket)",
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
