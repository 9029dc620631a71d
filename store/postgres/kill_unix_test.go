//go:build unix

package postgres_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// killBackend kills one process of the server, upon which the server ends all connections and recovers.
func killBackend(t testing.TB, srv *testenv.PostgresServer) {
	t.Helper()
	rows := query(t, srv, "select pid from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend' limit 1")
	if len(rows) == 0 {
		t.Fatal("nobody is connected")
	}
	pid, err := strconv.Atoi(rows[0][0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
