package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/distlock/distlock/internal/testenv"
)

// TestScripts_postgres runs the files of testdata/postgres, each with a database of its own. $PG is
// the URL of the database. It has no password, because the logs of the scripts would show it.
func TestScripts_postgres(t *testing.T) {
	srv := testenv.Postgres(t, testenv.Shared())
	if _, err := exec.LookPath("psql"); err != nil {
		testenv.Missing(t, "psql", "apt-get install postgresql-client")
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "postgres"),
		Setup: func(e *testscript.Env) error {
			at, err := url.Parse(srv.Database(t))
			if err != nil {
				return err
			}
			password, _ := at.User.Password()
			at.User = url.User(at.User.Username())
			file := filepath.Join(e.WorkDir, "pgpass")
			e.Setenv("PG", at.String())
			e.Setenv("PGPASSFILE", file)
			if err := os.WriteFile(file, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
				return err
			}
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}
