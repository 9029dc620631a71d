package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/distlock/distlock/internal/testenv"
)

// TestScripts_postgres runs the files of testdata/postgres, each with a database of its own: $PG is its URL.
func TestScripts_postgres(t *testing.T) {
	srv := testenv.Postgres(t, testenv.Shared())
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "postgres"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PG", srv.Database(t))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}
