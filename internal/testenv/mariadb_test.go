package testenv_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

func TestMariaDB(t *testing.T) {
	t.Parallel()
	m := testenv.MariaDB(t, testenv.Config("max_connections = 23"))
	query := func(text string) string {
		t.Helper()
		rows, err := m.Query(t.Context(), text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return fmt.Sprint(rows)
	}
	is(t, query("SELECT @@max_connections, @@innodb_flush_log_at_trx_commit, NULL"), "[[23 2 ]]")
	is(t, query("SELECT @@datadir LIKE CONCAT(@@tmpdir, '%')"), "[[1]]") // no other server uses it
	query("CREATE TABLE t (v INT)")
	query("INSERT INTO t VALUES (1)")
	m.Kill()
	if _, err := m.Query(t.Context(), "SELECT 1"); err == nil {
		t.Error("it answers after Kill")
	}
	m.Restart()
	is(t, query("SELECT v FROM t"), "[[1]]")
	m.RestartEmpty()
	if _, err := m.Query(t.Context(), "SELECT v FROM t"); err == nil {
		t.Error("the table is there after RestartEmpty")
	}
	if url := m.Database(t); url == m.URL {
		t.Error("the URL of a database is that of the server")
	}
}

// The first server of a machine has no copy of an initialized data folder. Its account is not the
// owner of the temporary folder of the tests.
func TestMariaDB_first(t *testing.T) {
	tmp, err := os.MkdirTemp("", "distlock-") //nolint:usetesting // the folder around that of TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	m := testenv.MariaDB(t)
	if _, err := m.Query(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
}
