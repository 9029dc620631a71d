//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/history"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/internal/torture"
	"github.com/distlock/distlock/open"
)

// Each mistake in a store is found, and called by its name. The control has none.
func TestTorture_planted(t *testing.T) {
	t.Parallel()
	for fault, rules := range map[string][]history.Invariant{
		"none":    nil,
		"forgets": {history.I3, history.I9},
		"owners":  {history.I3, history.I9},
		"fences":  {history.I2},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			a := &app{in: nil, out: &out, err: &errs, redact: open.Redact, open: plant(fault)}
			code := a.execute(context.Background(), []string{
				"torture", "--config", os.DevNull, "--store", "memory:", "--time", "3s", "--ttl", "500ms", "--keys", "4", "--clients", "5", "--rate", "500", "--json", "--dir", t.TempDir(), "--seed", "11",
			})
			var rep tortured
			if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
				t.Fatal(err, out.String(), errs.String())
			}
			if rules == nil {
				if code != 0 || rep.Verdict != torture.Clean || rep.Total() != 0 || len(rep.Files) != 0 {
					t.Errorf("exit %d: %s", code, out.String())
				}
				return
			}
			found := 0
			for _, r := range rules {
				found += rep.Count[r]
			}
			if code != exitFound || rep.Verdict != torture.Violated || found == 0 || rep.Count[history.Model] == 0 {
				t.Errorf("exit %d, want violations of %v: %v", code, rules, rep.Count)
			}
			if fault == "fences" && rep.Count[history.I3]+rep.Count[history.I9] > 0 {
				t.Errorf("exclusion was not broken: %s", out.String())
			}
			written(t, rep.Files)
		})
	}
}

// written makes sure that a failing run leaves its history and a picture.
func written(t *testing.T, files []string) {
	t.Helper()
	var kinds []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || len(text) == 0 {
			t.Error(err)
		}
		kinds = append(kinds, filepath.Ext(f))
		if filepath.Ext(f) == ".jsonl" {
			h, err := history.ReadJSON(bytes.NewReader(text))
			if err != nil || len(h.Ops) < 50 {
				t.Error("the history cannot be read", err)
			}
		}
	}
	if !slices.Contains(kinds, ".jsonl") || !slices.Contains(kinds, ".html") {
		t.Error("a file is missing: ", files)
	}
}

// Stores on servers are clean too, with processes.
func TestTorture_servers(t *testing.T) {
	t.Parallel()
	one, two, three := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
	for name, url := range map[string]string{
		"redis":   one.URL,
		"redlock": "redlock://" + one.Addr + "," + two.Addr + "," + three.Addr,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, url, "torture", "--time", "4s", "--ttl", "500ms", "--keys", "6", "--rate", "500", "--dir", t.TempDir())
			if code := p.code(t); code != 0 || !strings.Contains(p.out.String(), "\nverdict: clean\n") {
				t.Errorf("exit %d: %s%s", code, p.out.String(), p.err.String())
			}
			if !strings.Contains(p.out.String(), " 2 processes") {
				t.Error("there were no processes:", p.out.String())
			}
		})
	}
}
