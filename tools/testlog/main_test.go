package main

import (
	"strings"
	"testing"
)

// e writes one event as go test -json does.
func e(action, pkg, test, output string) string {
	q := strings.NewReplacer("\n", `\n`, "\t", `\t`)
	return `{"Action":"` + action + `","Package":"` + pkg + `","Test":"` + test + `","Output":"` + q.Replace(output) + "\"}\n"
}

func TestRun(t *testing.T) {
	good := e("start", "a", "", "") +
		e("output", "a", "TestX", "=== RUN   TestX\n") +
		e("output", "a", "TestX", "noise of a test that passed\n") +
		e("pass", "a", "TestX", "") +
		e("output", "a", "", "PASS\n") +
		e("output", "a", "", "ok  \ta\t0.01s\n") +
		e("pass", "a", "", "")
	skip := e("output", "a", "TestS", "=== RUN   TestS\n") +
		e("output", "a", "TestS", "    a_test.go:7: no redis-server: run scripts/servers\n") +
		e("output", "a", "TestS", "--- SKIP: TestS (0.00s)\n") +
		e("skip", "a", "TestS", "")
	lacks := e("output", "a", "TestL", "    a_test.go:7: "+lacking+"no initdb on this machine; to get it: apt-get install postgresql\n") + e("skip", "a", "TestL", "")
	rule := func(name, needs string) string {
		return e("output", "a", name, "a line of a client\n") + e("output", "a", name, "    rules.go:3: skipped: needs "+needs+"\n") + e("skip", "a", name, "")
	}
	bad := e("output", "b", "TestY", "    b_test.go:9: want 1, have 2\n") +
		e("fail", "b", "TestY", "") +
		e("output", "b", "", "FAIL\tb\t0.02s\n") +
		e("fail", "b", "", "")
	// A panic leaves its test without a result.
	cut := e("output", "c", "TestZ", "panic: oh\n") +
		e("output", "c", "", "FAIL\tc\t0.02s\n") +
		e("fail", "c", "", "")
	long := e("output", "b", "TestY", "    b_test.go:9: want 1, have 2\n") + strings.Repeat(e("output", "b", "TestY", "a line of a log\n"), 30) + e("fail", "b", "", "")

	tests := []struct {
		name, in    string
		says, hides []string
		err         string
	}{
		{"a package that passed gets go's own line", good, []string{"ok  \ta\t0.01s\n"}, []string{"noise", "PASS", "SKIPPED"}, ""},
		{"a skip is printed with its reason", skip + good, []string{"SKIPPED 1: no redis-server: run scripts/servers\n          a.TestS\n"}, nil, ""},
		{"tests are counted", skip + good + bad, []string{"\n1 passed, 1 failed, 1 skipped\n"}, []string{"left out"}, "packages failed: b"},
		{"a missing program is named in one line", lacks + good, []string{"\nleft out: no initdb on this machine; to get it: apt-get install postgresql\n"}, nil, ""},
		{"rules without their feature are one line", rule("L1", "floor") + rule("L2", "watch") + good, []string{"SKIPPED 2: the store does not declare"}, []string{"needs floor"}, ""},
		{"a failure is printed completely and fails the run", good + bad, []string{"ok  \ta", "want 1, have 2", "FAIL\tb"}, nil, "1 of 2 packages failed: b"},
		{"the reason is repeated below a long log", long, []string{"a line of a log\nwhy b.TestY: b_test.go:9: want 1, have 2\n"}, nil, "packages failed: b"},
		{"a test that was interrupted is printed", cut, []string{"panic: oh"}, nil, "1 of 1 packages failed: c"},
		{"a build that fails is printed", `{"ImportPath":"d","Action":"build-output","Output":"d.go:1: oops\n"}` + "\n" + e("fail", "d", "", ""), []string{"d.go:1: oops\n"}, nil, "packages failed: d"},
		{"a message of the go command is printed", "go: no such module\n", []string{"go: no such module\n"}, nil, "nothing was tested"},
		{"a secret in the output of a test that passed fails the run", e("output", "a", "TestX", "at redis://:hunter22@h\n") + good, []string{"ok  \ta"}, []string{"hunter22"}, "printed 1 times: a.TestX"},
		{"an empty run is a failure", "", nil, nil, "nothing was tested"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			_, err := run(strings.NewReader(tt.in), &out, "hunter22")
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			for _, s := range tt.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("output does not say %q:\n%s", s, out.String())
				}
			}
			for _, s := range tt.hides {
				if strings.Contains(out.String(), s) {
					t.Errorf("output says %q:\n%s", s, out.String())
				}
			}
		})
	}
}

func TestRun_times(t *testing.T) {
	in := `{"Action":"pass","Package":"a","Test":"TestX","Elapsed":1.5}` + "\n" + `{"Action":"pass","Package":"a","Elapsed":2}` + "\n"
	r, err := run(strings.NewReader(in), &strings.Builder{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.times.String(), "1.50 a TestX\n2.00 a \n"; got != want {
		t.Errorf("times %q, want %q", got, want)
	}
}
