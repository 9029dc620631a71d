//go:build !unix

package postgres_test

import (
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// killBackend ends a connection: Windows has no way to kill one process of the server alone.
func killBackend(t testing.TB, srv *testenv.PostgresServer) {
	t.Helper()
	query(t, srv, "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' limit 1")
}
