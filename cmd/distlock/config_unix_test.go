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

// Other users cannot choose the store. A configuration that everybody may write to is refused. A
// configuration in the current folder is not read if XDG_CONFIG_HOME is relative.
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
	if err := os.Chmod(file, 0o602); err != nil { // the umask does not apply to Chmod
		t.Fatal(err)
	}
	run := func(args ...string) (code int, message string) {
		var out, stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &stderr, redact: open.Redact, open: open.Open}
		code = a.execute(t.Context(), args)
		return code, stderr.String()
	}
	if code, message := run("show", "a", "--config", file); code != exitUsage || !strings.Contains(message, "chmod o-w") {
		t.Errorf("a file that everybody may write to: exit %d, %q", code, message)
	}
	t.Setenv("XDG_CONFIG_HOME", "here")
	t.Setenv("DISTLOCK_STORE", "memory:")
	if code, message := run("show", "a"); code != 0 {
		t.Errorf("a relative XDG_CONFIG_HOME: exit %d, %q", code, message)
	}
}
