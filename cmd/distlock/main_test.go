package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// runner lets testscript run testenv's Main.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	flag.Parse()
	// Most tests wait for a clock or another process, so more of them than there are processors can
	// run at the same time.
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	// The race detector makes every program sleep for a second at its end. The tests run hundreds
	// of programs.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=20 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	return testenv.Main(r.m, nil).Run()
}

func TestMain(m *testing.M) {
	testscript.Main(runner{m}, map[string]func(){"distlock": main, "distlock-broken": brokenMain})
}

// TestScripts runs the files of testdata/script, each with a SQLite file and a home of its own. The
// command "code N CMD" checks an exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code},
	})
}

// code runs a line of shell and checks its exit code: code N 'line'. The output is in the files out
// and err.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: code N 'line'")
	}
	_ = ts.Exec("sh", "-c", "( "+args[1]+"\n) >out 2>err; echo $? >code")
	if got := strings.TrimSpace(ts.ReadFile("code")); got != args[0] {
		ts.Fatalf("%s\nexits with %s, want %s\n%s%s", args[1], got, args[0], ts.ReadFile("out"), ts.ReadFile("err"))
	}
}

func TestExecute_memory(t *testing.T) {
	t.Cleanup(func() { // run does not reset the signal handlers of its process
		signal.Reset()
		testenv.HandleIgnored()
	})
	t.Setenv("DISTLOCK_STORE", "memory:")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, tt := range []struct {
		args string
		code int
		out  string
		err  string
	}{
		{"run a echo hello", 0, "hello\n", ""},
		{"run -w 5s a echo -n x", 0, "x", ""},
		{"run a -w 5s echo -w", 0, "-w\n", ""},
		{"run a -- echo -- x", 0, "-- x\n", ""},
		{"run a --store memory: -- echo --store b", 0, "--store b\n", ""},
		{"run a -s echo x", 0, "x\n", ""},
		{"run a -c exit", 0, "", ""},
		{"run a false", 1, "", ""},
		{"show a", 0, "a is free\n", ""},
		{"wait a", 0, "", ""},
		{"break a --reason x --yes", 0, "a was held by nobody\n", ""},
		{"break a --reason x", 64, "", "--yes"},
		{"break a --yes", 64, "", "--reason"},
		{"acquire a", 64, "", "a store that stays"},
		{"renew x", 64, "", "invalid handle"},
		{"release -", 64, "", "invalid handle"},
		{"ls x y", 64, "", "too many"},
		{"show", 64, "", "NAME is missing"},
		{"wait a -w -1s", 64, "", "--wait"},
		{"completion tcsh", 64, "", "unknown shell"},
		{"", 64, "", "no command"},
		{"nonsense", 64, "", "unknown command"},
		{"help nonsense", 64, "", "unknown command"},
		{"docter", 64, "", "did you mean doctor?"},
		{"list", 64, "", "did you mean ls?"},
		{"lock a", 64, "", "did you mean run, or acquire and release?"},
		{"unlock a", 64, "", "did you mean release, or break"},
		{"status a", 64, "", "did you mean show?"},
		{"run --timeout 5s a true", 64, "", "unknown flag: --timeout: did you mean --wait?"},
		{"run a --timeout 5s true", 64, "", "did you mean --wait?"},
		{"wait a --timeout 5s", 64, "", "did you mean --wait?"},
		{"version --timeout 5s", 64, "", "unknown flag: --timeout\n"}, // version has no --wait
		{"release a", 64, "", "want the handle that distlock acquire printed, not the name of the lock"},
		{"ls --store localhost:6379", 64, "", "did you mean redis://localhost:6379?"},
		{"run", 64, "", "NAME is missing"},
		{"run a", 64, "", "COMMAND is missing"},
		{"run a --", 64, "", "COMMAND is missing"},
		{"run a -c x y", 64, "", "exclude"},
		{"run --bogus a true", 64, "", "--bogus"},
		{"run --ttl 5 a true", 64, "", `--ttl is "5", want a duration such as 10s`},
		{"run -E foo a true", 64, "", `--busy-exit-code is "foo", want a whole number`},
		{"run --ttl -1s a true", 64, "", "TTL"},
		{"run --ttl NaN a true", 64, "", "ttl"},
		{"run --ttl 1s --ttl 2s a true", 64, "", "twice"},
		{"run --ttl 1s a --ttl 2s true", 64, "", "twice"},
		{"run -n -w 1s a true", 64, "", "exclude"},
		{"run -w -1s a true", 64, "", "--wait"},
		{"run -E 256 a true", 64, "", "0 to 255"},
		{"run -E -1 a true", 64, "", "0 to 255"},
		{"run --on-lost x a true", 64, "", "--on-lost"},
		{"run --log-format x a true", 64, "", "--log-format"},
		{"run -q -v a true", 64, "", "exclude"},
		{"run --max-run 0s a true", 64, "", "--max-run"},
		{"run --min-hold -1s a true", 64, "", "--min-hold"},
		{"run --grace 20s a true", 64, "", "third"},
		{"run --label x a true", 64, "", "k=v"},
		{"run --store reddis://:hunter22@h a true", 64, "", "did you mean redis"},
		{"run --store redis://:hunter22@127.0.0.1:1 a true", 69, "", "a"},
		{"run a no-such-command", 127, "", "not found"},
		{"run a /etc/passwd", 126, "", "permission"},
		{"run a /etc", 126, "", "/etc"},
		{"ls", 0, "NAME  KIND  MODE  STATE  HOLDER  FOR  LEFT  FENCE  NOTE\n", ""},
		{"ls --store redis://127.0.0.1:1", 69, "", "127.0.0.1:1"}, // prints no head of a table
		{"run --require-fence a true", 0, "", ""},
		{"run -v --log-format json a true", 0, "", `"msg"`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			got := execute(context.Background(), strings.Fields(tt.args), strings.NewReader(""), &out, &errs)
			if got != tt.code || out.String() != tt.out || !strings.Contains(errs.String(), tt.err) || tt.err == "" && errs.Len() > 0 {
				t.Errorf("%d %q %q", got, out.String(), errs.String())
			}
			if strings.Contains(errs.String(), "hunter22") || tt.code >= 64 && strings.Count(errs.String(), "\n") != 1 {
				t.Errorf("want one line without the password: %q", errs.String())
			}
		})
	}
}

func TestComplete_flags(t *testing.T) {
	var out, errs bytes.Buffer
	if code := execute(context.Background(), []string{"__complete", "run", "--"}, nil, &out, &errs); code != 0 {
		t.Fatal(code, errs.String())
	}
	text := out.String()
	if !strings.Contains(text, "--on-lost\tthe action when the lock is lost: stop|warn\n") ||
		!strings.Contains(text, "--store\tthe URL of the store\n") || strings.Contains(text, "`") {
		t.Error(text)
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a":                                "a",
		"a\nb":                             "a; b",
		"a:\n\ttls\n\tplain":               "a: plain",
		"x: a:\n\tone\n\ttwo\nb:\n\tthree": "x: a: two; b: three",
		"\tone\r\n\ttwo\tthree\n":          "one two three",
		"\n":                               "",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("oneLine(%q): %q, want %q", text, got, want)
		}
	}
}

func TestExecute_help(t *testing.T) {
	for word, flag := range map[string]string{"help": "--help", "help run": "run --help"} {
		var out, want, errs bytes.Buffer
		execute(context.Background(), strings.Fields(flag), nil, &want, &errs)
		if code := execute(context.Background(), strings.Fields(word), nil, &out, &errs); code != 0 || out.String() != want.String() || errs.Len() > 0 {
			t.Errorf("%s: %d %q %s, want the output of %s", word, code, out.String(), errs.String(), flag)
		}
	}
	for _, c := range (&app{redact: open.Redact}).root().Commands() {
		if c.Hidden {
			continue
		}
		var out, errs bytes.Buffer
		if code := execute(context.Background(), []string{c.Name(), "--help"}, nil, &out, &errs); code != 0 || !strings.Contains(out.String(), "Examples:\n  ") {
			t.Error(c.Name(), code, out.String(), errs.String())
		}
		// A flag that is left out does not mean the same as 0: --wait 0s does not wait, and without
		// --wait the wait has no limit.
		if strings.Contains(out.String(), "(default 0") {
			t.Errorf("%s: a default of zero: %s", c.Name(), out.String())
		}
	}
}

// With -v, run logs the path of the file: the default stores of a login and of cron may be two
// files.
func TestExecute_logsTheFile(t *testing.T) {
	t.Cleanup(func() { // run does not reset the signal handlers of its process
		signal.Reset()
		testenv.HandleIgnored()
	})
	state := t.TempDir()
	t.Setenv("DISTLOCK_STORE", "sqlite:")
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	want := filepath.Join(state, "distlock", "locks.db")
	for args, logged := range map[string]bool{
		"run -v a true": true, "run -v --log-format json a true": true, "run a true": false,
	} {
		var out, errs bytes.Buffer
		code := execute(context.Background(), strings.Fields(args), nil, &out, &errs)
		if code != 0 || strings.Contains(errs.String(), want) != logged {
			t.Errorf("%s: %d %s, want %s in it: %v", args, code, errs.String(), want, logged)
		}
	}
}
