package open_test

import (
	"testing"

	"github.com/distlock/distlock/open"
)

// What a URL for PostgreSQL leaves out is taken from the variables, by the client and by what is found about the way.
func TestWayToPostgres_variables(t *testing.T) {
	t.Setenv("PGSERVICE", "")
	for _, c := range []struct{ host, mode, url, want string }{
		{"", "", "postgres:///db?host=/run/pg", "what is sent stays on this host (a socket)"},
		{"/run/pg", "", "postgres:///db", "what is sent stays on this host (a socket)"},
		{"192.0.2.77", "", "postgres:///db", "what is sent may not be encrypted (sslmode below require)"},
		{"192.0.2.77", "", "postgres:///db?host=/run/pg", "what is sent stays on this host (a socket)"},
		{"192.0.2.77", "", "postgres://localhost/db", "what is sent stays on this host"},
		{"/run/pg,192.0.2.77", "", "postgres:///db", "what is sent may not be encrypted (sslmode below require)"},
		{"127.0.0.1,::1", "", "postgres://u:p@:5433/db", "what is sent stays on this host"},
		{"", "", "postgres:///db?service=far", "what is sent may not be encrypted (sslmode below require)"},
		{"", "", "postgres://localhost/db?host=192.0.2.77", "what is sent may not be encrypted (sslmode below require)"},
		{"192.0.2.77", "require", "postgres:///db", "the certificate of the server is not checked (sslmode require)"},
		{"192.0.2.77", "verify-full", "postgres:///db", "what is sent is encrypted, and the server shows a certificate (sslmode verify-full)"},
		{"192.0.2.77", "verify-full", "postgres:///db?sslmode=disable", "what is sent may not be encrypted (sslmode below require)"},
	} {
		t.Setenv("PGHOST", c.host)
		t.Setenv("PGSSLMODE", c.mode)
		if got := open.WayToPostgres(c.url); len(got) != 1 || got[0].What != c.want {
			t.Errorf("PGHOST=%s PGSSLMODE=%s %s: %+v, want %q", c.host, c.mode, c.url, got, c.want)
		}
	}
}
