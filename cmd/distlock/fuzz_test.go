package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/distlock/distlock/open"
)

// FuzzArgs checks that every command line ends with an exit code of docs/cli.md, and that a usage
// error is one line without a password. No store can be reached, so that no command is run.
func FuzzArgs(f *testing.F) {
	for _, line := range []string{
		"", "run", "run a", "run a -- true", "run -w 5s a ls -la", "run a -w 5s ls", "run a -- x -- y",
		"run a --store s -- x --store t", "run --ttl 5 a true", "run --ttl -1s a true",
		"run --ttl NaN a true", "run -E 256 a true", "run -n -n a true", "run a -c",
		"run --slots 0 a true", "run --on-lost maybe a true", "run --label a a true", "run \xff true",
		"acquire a --ttl 1s --json", "renew x", "release dlh1.e30", "ls --json", "show",
		"watch --nosuch", "wait a --wait", "break a", "break a --yes --reason x", "elect a -- true",
		"limit a --rate 10/1m -- true", "limit a --rate 1/0s -- true", "doctor --json",
		"bench --clients -1", "torture --time x", "completion bash", "completion fishh", "version -v",
		"help run", "runn", "--version", "-h", "run --store redis://:hunter22@h:x a true",
		"doctor --store reddis://:hunter22@h", "ls --config nosuch",
	} {
		f.Add(line)
	}
	known := []int{0, 1, exitUsage, exitUnavailable, exitBusy, exitLost, exitMaxRun, exitFailed, exitNotRunnable, exitNotFound}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		for _, a := range args {
			// These arguments write files, read files of this machine, or open stores by
			// themselves.
			if strings.HasPrefix(a, "--rep") || strings.HasPrefix(a, "--out") || strings.HasPrefix(a, "@") || strings.Contains(a, "=@") || strings.HasPrefix(a, "migrate") {
				return
			}
		}
		t.Setenv("XDG_CONFIG_HOME", t.TempDir())
		t.Chdir(t.TempDir())
		var out, stderr bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &stderr, redact: open.Redact, open: func(context.Context, string) (*open.Source, error) {
			return nil, errors.New("no store is reached")
		}}
		code := a.execute(t.Context(), args)
		if !slices.Contains(known, code) {
			t.Errorf("%q ends with %d", args, code)
		}
		if text := stderr.String(); code == exitUsage && strings.Count(text, "\n") != 1 && !strings.Contains(line, "\n") {
			t.Errorf("%q prints %q", args, text)
		}
		if text := out.String() + stderr.String(); strings.Contains(text, "hunter22") &&
			strings.Count(line, "hunter22") == strings.Count(line, "redis://:hunter22@") {
			t.Errorf("%q shows the password: %s", args, text)
		}
	})
}
