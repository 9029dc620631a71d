package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mistake in a file for one system is found for that system alone: one that the compiler finds,
// one in a test, and one that only vet finds.
func TestCheck(t *testing.T) {
	for name, source := range map[string]string{
		"a_windows.go":      "package a\n\nvar n int = \"text\"\n",
		"a_windows_test.go": "package a\n\nvar n int = \"text\"\n",
		"b_windows.go":      "package a\n\nimport \"fmt\"\n\nfunc f() { fmt.Printf(\"%d\\n\", \"text\") }\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"go.mod": "module a\n\ngo 1.26\n", "a.go": "package a\n", name: source}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			if err := check(dir, "windows", &out); err == nil || !strings.Contains(out.String(), name+":") {
				t.Errorf("for windows: %v\n%s", err, out.String())
			}
			if err := check(dir, "darwin", &out); err != nil {
				t.Errorf("for darwin: %v\n%s", err, out.String())
			}
		})
	}
	if err := check(t.TempDir(), "windows", os.Stderr); err == nil {
		t.Error("a folder without a module is accepted")
	}
}
