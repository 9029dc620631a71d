package open_test

import (
	"testing"

	"github.com/distlock/distlock/open"
)

// Environment variables replace missing parts of a URL, for the client and for the findings.
func TestPostgresTransport_variables(t *testing.T) {
	t.Setenv("PGSERVICE", "")
	for _, c := range []struct{ host, mode, url, want string }{
		{"", "", "postgres:///db?host=/run/pg", "traffic stays on this host (a socket)"},
		{"/run/pg", "", "postgres:///db", "traffic stays on this host (a socket)"},
		{"192.0.2.77", "", "postgres:///db", "traffic may not be encrypted (sslmode below require)"},
		{"192.0.2.77", "", "postgres:///db?host=/run/pg", "traffic stays on this host (a socket)"},
		{"192.0.2.77", "", "postgres://localhost/db", "traffic stays on this host"},
		{"/run/pg,192.0.2.77", "", "postgres:///db", "traffic may not be encrypted (sslmode below require)"},
		{"127.0.0.1,::1", "", "postgres://u:p@:5433/db", "traffic stays on this host"},
		{"", "", "postgres:///db?service=far", "traffic may not be encrypted (sslmode below require)"},
		{"", "", "postgres://localhost/db?host=192.0.2.77", "traffic may not be encrypted (sslmode below require)"},
		{"192.0.2.77", "require", "postgres:///db", "the certificate of the server is not checked (sslmode require)"},
		{"192.0.2.77", "verify-full", "postgres:///db", "traffic is encrypted, and the server shows a certificate (sslmode verify-full)"},
		{"192.0.2.77", "verify-full", "postgres:///db?sslmode=disable", "traffic may not be encrypted (sslmode below require)"},
	} {
		t.Setenv("PGHOST", c.host)
		t.Setenv("PGSSLMODE", c.mode)
		if got := open.PostgresTransport(c.url); len(got) != 1 || got[0].What != c.want {
			t.Errorf("PGHOST=%s PGSSLMODE=%s %s: %+v, want %q", c.host, c.mode, c.url, got, c.want)
		}
	}
}
