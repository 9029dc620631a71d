//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/open"
)

// Others do not choose the store: a configuration that everybody may write to is refused, and one
// in the current folder is not read because XDG_CONFIG_HOME is relative.
func TestConfig_ofOthers(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	file := filepath.Join("here", "distlock", "config.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("store = \"nosuch:\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o602); err != nil { // past the umask
		t.Fatal(err)
	}
	run := func(args ...string) (code int, said string) {
		var out, stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &stderr, redact: open.Redact, open: open.Open}
		code = a.execute(t.Context(), args)
		return code, stderr.String()
	}
	if code, said := run("show", "a", "--config", file); code != exitUsage || !strings.Contains(said, "chmod o-w") {
		t.Errorf("a file that everybody may write to: exit %d, %q", code, said)
	}
	t.Setenv("XDG_CONFIG_HOME", "here")
	t.Setenv("DISTLOCK_STORE", "memory:")
	if code, said := run("show", "a"); code != 0 {
		t.Errorf("a relative XDG_CONFIG_HOME: exit %d, %q", code, said)
	}
}
