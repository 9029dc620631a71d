package testenv_test

import (
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// PostgreSQL distinguishes servers that are copies of one template, and they survive a restart.
func TestPostgres_identity(t *testing.T) {
	t.Parallel()
	const identity = "select system_identifier from pg_control_system()"
	a, b := testenv.Postgres(t), testenv.Postgres(t)
	first := query(t, a, identity)[0][0]
	if other := query(t, b, identity)[0][0]; first == other {
		t.Errorf("two servers have the identity %s", first)
	}
	a.Kill()
	a.Restart()
	is(t, query(t, a, identity)[0][0], first)
	a.RestartEmpty()
	if again := query(t, a, identity)[0][0]; first == again {
		t.Errorf("a server that forgot everything has kept the identity %s", first)
	}
}
