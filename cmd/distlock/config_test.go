package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/open"
)

// Any configuration file either sets flags or is a usage error. The error shows no password.
func FuzzConfig(f *testing.F) {
	f.Add("store = \"redis://:hunter22@h\"\nttl = \"5s\"\nlabel = [\"a=b\"]\n")
	f.Add("store = \"redis://:hunter22@h\nttl = 5")
	f.Add("[store]\nx = 1")
	f.Add("\xef\xbb\xbfttl = \"1s\"")
	path := filepath.Join(f.TempDir(), "config.toml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, redact: open.Redact}
		c, _, err := a.root().Find([]string{"run"})
		if err != nil {
			t.Fatal(err)
		}
		c.InheritedFlags() // adds the inherited flags, as Execute does
		if err := c.Flags().Set("config", path); err != nil {
			t.Fatal(err)
		}
		err = a.configure(c)
		var exit *exitError
		switch {
		case err == nil:
		case !errors.As(err, &exit) || exit.code != exitUsage:
			t.Errorf("%v, want a usage error", err)
		// The text contains hunter22 also outside of a password.
		case strings.Count(text, "hunter22") != strings.Count(text, "redis://:hunter22@"):
		case strings.Contains(a.redact(err.Error()), "hunter22"):
			t.Errorf("the password is shown: %v", err)
		}
	})
}
