// Package examples_test runs the programs of the folders next to it.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// needs has the server that an example starts itself, by the name of the example.
var needs = map[string]string{"payment": "redis-server"}

// TestExamples builds every program and compares its output with its output.txt. A program without
// an output.txt, or without a row in README.md, fails.
func TestExamples(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, main := range mains {
		name := filepath.Dir(main)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(string(readme), "["+name+"]("+name+"/main.go)") {
				t.Error("README.md has no row for it")
			}
			if program := needs[name]; program != "" {
				if _, err := exec.LookPath(program); err != nil {
					testenv.Missing(t, program, "scripts/servers")
				}
			}
			want, err := os.ReadFile(filepath.Join(name, "output.txt"))
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(bin, name)
			if runtime.GOOS == "windows" {
				program += ".exe"
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, program)
			var errs strings.Builder
			c.Stderr = &errs
			got, err := c.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, got, errs.String())
			}
			if string(got) != string(want) {
				t.Errorf("it printed\n%s, want\n%s%s", got, want, errs.String())
			}
		})
	}
}
