package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// A password that is in a file is in no argument and no variable: neither of ours nor of the command's. One that is in
// DISTLOCK_STORE is inherited by the command, as all variables are, and is nowhere else.
func TestRun_secretsOfProcesses(t *testing.T) {
	const secret = "hunter22"
	r := testenv.Redis(t, testenv.Password(secret))
	url := "redis://:" + secret + "@" + r.Addr
	dir := t.TempDir()
	file, config := filepath.Join(dir, "url"), filepath.Join(dir, "config.toml")
	for path, text := range map[string]string{file: url + "\n", config: "store = \"" + url + "\"\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		args []string
		env  string
		want int // how often the secret is seen
	}{
		"--store @file":       {[]string{"--store", "@" + file}, "", 0},
		"DISTLOCK_STORE=@":    {nil, "DISTLOCK_STORE=@" + file, 0},
		"DISTLOCK_STORE_FILE": {nil, "DISTLOCK_STORE_FILE=" + file, 0},
		"configuration":       {[]string{"--config", config}, "", 0},
		"DISTLOCK_STORE":      {nil, "DISTLOCK_STORE=" + url, 2}, // in our variables, and in the command's
		"--store":             {[]string{"--store", url}, "", 1}, // in our arguments, for everybody to see: docs/cli.md warns
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", "a", "-v", "--report", filepath.Join(t.TempDir(), "report")}, tt.args...)
			c := exec.Command("distlock", append(args, "-c", "cat /proc/$PPID/cmdline /proc/$PPID/environ /proc/$$/environ /proc/$$/cmdline | tr '\\0' '\\n'")...)
			c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
			if tt.env != "" {
				c.Env = append(c.Env, tt.env)
			}
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "DISTLOCK_LOCK_FENCE=") {
				t.Fatalf("%v: %s", err, out)
			}
			if n := strings.Count(string(out), secret); n != tt.want {
				t.Errorf("the password is seen %d times, want %d: %s", n, tt.want, out)
			}
		})
	}
}
