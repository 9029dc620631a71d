//go:build !unix

package postgres_test

import (
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// killBackend ends a connection: Windows cannot kill a single process of the server.
func killBackend(t testing.TB, srv *testenv.PostgresServer) {
	t.Helper()
	query(t, srv, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' limit 1")
}
