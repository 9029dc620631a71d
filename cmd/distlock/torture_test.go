//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// torture finds each planted bug and names the violated rule. The control has no bug.
func TestTorture_planted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault string
		rules []history.Invariant // at least one of them is violated
		not   []history.Invariant
		code  int
		out   bytes.Buffer
		err   bytes.Buffer
	}{
		{fault: "none"},
		{fault: "forgets", rules: []history.Invariant{history.I3, history.I9}},
		{fault: "owners", rules: []history.Invariant{history.I3, history.I9}},
		{fault: "fences", rules: []history.Invariant{history.I2}, not: []history.Invariant{history.I3, history.I9}},
	}
	// The goroutine of package os/signal must start outside of the bubble.
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, os.Interrupt)
	signal.Stop(sigs)
	// In virtual time a busy machine delays no client.
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range tests {
			tt := &tests[i]
			dir := filepath.Join(dir, tt.fault)
			wg.Go(func() {
				a := &app{out: &tt.out, err: &tt.err, redact: open.Redact, open: plant(tt.fault)}
				tt.code = a.execute(t.Context(), []string{
					"torture", "--config", os.DevNull, "--store", "memory:", "--time", "3s", "--ttl", "500ms",
					"--keys", "4", "--clients", "5", "--rate", "500", "--json", "--dir", dir, "--seed", "11",
				})
			})
		}
		wg.Wait()
	})
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.fault, func(t *testing.T) {
			var rep tortureJSON
			if err := json.Unmarshal(tt.out.Bytes(), &rep); err != nil {
				t.Fatal(err, tt.out.String(), tt.err.String())
			}
			if tt.rules == nil {
				if tt.code != 0 || rep.Verdict != torture.Clean || rep.Total() != 0 || len(rep.Files) != 0 {
					t.Errorf("exit %d: %s", tt.code, tt.out.String())
				}
				return
			}
			found := func(rules []history.Invariant) (n int) {
				for _, r := range rules {
					n += rep.Count[r]
				}
				return n
			}
			if tt.code != exitFound || rep.Verdict != torture.Violated || found(tt.rules) == 0 || rep.Count[history.Model] == 0 {
				t.Errorf("exit %d, want violations of %v: %v", tt.code, tt.rules, rep.Count)
			}
			if found(tt.not) > 0 {
				t.Errorf("want no violations of %v: %s", tt.not, tt.out.String())
			}
			written(t, rep.Files)
		})
	}
}

// written fails the test unless there are a history and a picture.
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

// The first example in the help of bench and torture works as printed, with no server. The example
// of torture runs in virtual time: a busy machine might not have enough waits for its verdict.
func TestLoad_examples(t *testing.T) {
	// The goroutine of package os/signal must start outside of the bubble.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	run := func(t *testing.T, command string) {
		var help, out, errs bytes.Buffer
		execute(t.Context(), []string{command, "--help"}, nil, &help, &errs)
		_, examples, _ := strings.Cut(help.String(), "Examples:\n  distlock ")
		example, _, _ := strings.Cut(examples, "\n")
		if !strings.HasPrefix(example, command+" --store memory: ") {
			t.Errorf("%s: the first example is %q", command, example)
			return
		}
		if code := execute(t.Context(), strings.Fields(example), nil, &out, &errs); code != 0 || errs.Len() > 0 {
			t.Errorf("%s: exit %d: %s%s", example, code, out.String(), errs.String())
		}
	}
	t.Run("bench", func(t *testing.T) {
		t.Parallel()
		run(t, "bench")
	})
	t.Run("torture", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { run(t, "torture") })
	})
}

// The verdict is also clean for stores on servers, with processes.
func TestTorture_servers(t *testing.T) {
	t.Parallel()
	one, two, three := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
	for name, tt := range map[string]struct {
		url  string
		time time.Duration // if a busy machine needs more, the test runs again for longer
		ttl  string
	}{
		"redis": {one.URL, 4 * time.Second, "500ms"},
		// Each node has a tenth of the TTL to answer, and needs it on a busy machine.
		"redlock": {
			"redlock://" + one.Addr + "," + two.Addr + "," + three.Addr + "?lock_node_limit=2s", 12 * time.Second, "2s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(d time.Duration) *program {
				return start(t, tt.url, "torture", "--time", d.String(), "--ttl", tt.ttl, "--keys", "6",
					"--rate", "500", "--dir", t.TempDir())
			}
			p := run(tt.time)
			code := p.code(t)
			if strings.Contains(p.out.String(), "note: scheduler stalls stopped a client") &&
				strings.Contains(p.out.String(), "verdict: not enough") {
				p = run(5 * tt.time)
				code = p.code(t)
			}
			if code != 0 || !strings.Contains(p.out.String(), "\nverdict: clean\n") {
				t.Errorf("exit %d: %s%s", code, p.out.String(), p.err.String())
			}
			if !strings.Contains(p.out.String(), " 2 processes") {
				t.Error("there were no processes:", p.out.String())
			}
		})
	}
}

// If the store dies in the middle of a run, it breaks no rule after that. The verdict is not clean
// then.
func TestTorture_gone(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	p := start(t, srv.URL, "torture", "--time", "6s", "--ttl", "500ms", "--keys", "6", "--rate", "500", "--seed", "3",
		"--dir", t.TempDir())
	time.Sleep(4 * time.Second) // enough for a clean verdict
	srv.Kill()
	if code := p.code(t); code != exitUnavailable || p.out.Len() > 0 ||
		!strings.Contains(p.err.String(), "the store became unreachable after ") {
		t.Errorf("exit %d: %s%s", code, p.out.String(), p.err.String())
	}
}
