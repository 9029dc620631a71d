package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// A password from a file is in no argument and no variable of distlock or of the command. The
// command inherits a password in DISTLOCK_STORE, as it inherits all variables, and the password is
// nowhere else.
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
		want int // how often the password appears
	}{
		"--store @file":       {[]string{"--store", "@" + file}, "", 0},
		"DISTLOCK_STORE=@":    {nil, "DISTLOCK_STORE=@" + file, 0},
		"DISTLOCK_STORE_FILE": {nil, "DISTLOCK_STORE_FILE=" + file, 0},
		"configuration":       {[]string{"--config", config}, "", 0},
		"DISTLOCK_STORE":      {nil, "DISTLOCK_STORE=" + url, 2}, // in the variables of distlock and of the command
		"--store":             {[]string{"--store", url}, "", 1}, // in the arguments of distlock: docs/cli.md warns of it
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"run", "a", "-v", "--report", filepath.Join(t.TempDir(), "report")}, tt.args...)
			c := exec.Command("distlock", append(args, "-c",
				"cat /proc/$PPID/cmdline /proc/$PPID/environ /proc/$$/environ /proc/$$/cmdline | tr '\\0' '\\n'")...)
			c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
			if tt.env != "" {
				c.Env = append(c.Env, tt.env)
			}
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "DISTLOCK_LOCK_FENCE=") {
				t.Fatalf("%v: %s", err, out)
			}
			if n := strings.Count(string(out), secret); n != tt.want {
				t.Errorf("the password appears %d times, want %d: %s", n, tt.want, out)
			}
		})
	}
}
