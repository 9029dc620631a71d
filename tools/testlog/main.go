// Command testlog reads the output of `go test -json` and prints what a person wants to know:
// go's own line for each package, everything that a failed test printed, the skipped tests with
// their reasons, and one closing line. Plain `go test` hides skips, and -v hides everything else.
//
// usage: go test -json ./... | TESTLOG_SECRET=... TESTLOG_TIMES=FILE testlog
//
// It exits with 1 if a test or a build failed, or if nothing was tested at all. It also does if a
// test printed the secret, which the tests have as a password, or if the list of processes showed
// the secret meanwhile. FILE gets the time of each package and test, in seconds.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	secret := os.Getenv("TESTLOG_SECRET") // which an argument would show to everybody
	stop := watch(secret)
	r, err := run(os.Stdin, os.Stdout, secret)
	if name := os.Getenv("TESTLOG_TIMES"); name != "" {
		err = errors.Join(err, os.WriteFile(name, []byte(r.times.String()), 0o644))
	}
	if err = errors.Join(err, listed(stop())); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
}

// An event is one line of test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// A report gathers what has been read so far.
type report struct {
	out     io.Writer
	said    map[string]map[string][]string // by package and test: what was printed and is still of use
	skips   map[string][]string            // by reason: the tests
	reasons []string                       // the keys of skips, as they came
	ended   int                            // packages with a verdict
	failed  []string                       // packages
	secret  string                         // what nobody may print; empty: nothing
	shown   []string                       // where it was
	passed  int                            // tests
	broken  int                            // tests that failed, or never ended
	skipped int
	times   strings.Builder // a line each: seconds, package, test
}

func run(in io.Reader, out io.Writer, secret string) (*report, error) {
	r := &report{out: out, secret: secret, said: map[string]map[string][]string{}, skips: map[string][]string{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return r, err
		}
	}
	return r, r.finish()
}

// line takes one line. What is no event (a message of the go command itself) is passed on.
func (r *report) line(line string) {
	var e event
	known := strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil
	if r.secret != "" && strings.Contains(line, r.secret) {
		r.shown = append(r.shown, e.Package+"."+e.Test)
	}
	if !known {
		fmt.Fprint(r.out, line)
		return
	}
	if e.Action == "pass" || e.Action == "fail" {
		fmt.Fprintf(&r.times, "%.2f %s %s\n", e.Elapsed, e.Package, e.Test)
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "output":
		if r.said[e.Package] == nil {
			r.said[e.Package] = map[string][]string{}
		}
		r.said[e.Package][e.Test] = append(r.said[e.Package][e.Test], e.Output)
	case e.Test == "":
		r.verdict(e)
	case e.Action == "skip":
		r.skipped++
		r.skip(e)
	case e.Action == "pass":
		r.passed++
		delete(r.said[e.Package], e.Test)
	}
}

// verdict prints a package that has ended: one line if it is well, else all that was said
// by tests that did not pass. That includes tests which a panic or a timeout cut off.
func (r *report) verdict(e event) {
	said := r.said[e.Package]
	switch e.Action {
	case "pass", "skip":
		for _, s := range said[""] {
			if strings.HasPrefix(s, "ok ") || strings.HasPrefix(s, "? ") || strings.HasPrefix(s, "\t") {
				fmt.Fprint(r.out, s)
			}
		}
	case "fail":
		r.failed = append(r.failed, e.Package)
		r.broken += max(1, len(said)-1)
		names := make([]string, 0, len(said))
		for name := range said {
			if name != "" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range append(names, "") {
			fmt.Fprint(r.out, strings.Join(said[name], ""))
			r.why(e.Package, name, said[name])
		}
	default: // "start"
		return
	}
	r.ended++
	delete(r.said, e.Package)
}

// why says again what a test itself had to say, below the logs of its servers: who has only the end of a long text then has the reason.
func (r *report) why(pkg, test string, said []string) {
	const few = 20 // lines that anybody can see at once
	if len(said) <= few {
		return
	}
	for _, s := range said {
		if strings.Contains(s, "_test.go:") {
			fmt.Fprintf(r.out, "why %s.%s: %s\n", pkg, test, strings.TrimSpace(s))
		}
	}
}

// skip notes a skipped test under its reason: what it said, without go's own frame.
func (r *report) skip(e event) {
	var reason []string
	for _, s := range r.said[e.Package][e.Test] {
		s = strings.TrimSpace(s)
		if strings.HasPrefix(s, "=== ") || strings.HasPrefix(s, "--- ") {
			continue
		}
		if _, after, ok := strings.Cut(s, ".go:"); ok { // file.go:12: reason
			if _, text, ok := strings.Cut(after, ": "); ok {
				s = text
			}
		}
		reason = append(reason, s)
	}
	delete(r.said[e.Package], e.Test)
	why := strings.Join(reason, " ")
	switch {
	case why == "":
		why = "no reason given"
	case strings.Contains(why, "not asked: "): // behind what a client logged
		// drivertest skips each law about a feature that a store does not declare. They are
		// hundreds and as meant: one line for all leaves the others to be seen.
		why = "not asked of a store that does not declare the feature"
	}
	if r.skips[why] == nil {
		r.reasons = append(r.reasons, why)
	}
	r.skips[why] = append(r.skips[why], e.Package+"."+e.Test)
}

// finish prints the skips and the closing line, and returns an error unless all is well.
func (r *report) finish() error {
	var missing []string
	for _, why := range r.reasons {
		tests := r.skips[why]
		if _, program, ok := strings.Cut(why, lacking); ok {
			missing = append(missing, program)
		}
		fmt.Fprintf(r.out, "SKIPPED %d: %s\n", len(tests), why)
		for _, t := range tests[:min(len(tests), 3)] {
			fmt.Fprintf(r.out, "          %s\n", t)
		}
		if more := len(tests) - 3; more > 0 {
			fmt.Fprintf(r.out, "          and %d more\n", more)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintln(r.out, "left out:", strings.Join(missing, "; "))
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.broken, r.skipped)
	if len(r.failed) > 0 {
		return fmt.Errorf("%d of %d packages failed: %s", len(r.failed), r.ended, strings.Join(r.failed, " "))
	}
	if len(r.shown) > 0 {
		return fmt.Errorf("the password of the tests was printed %d times: %s", len(r.shown), strings.Join(slices.Compact(r.shown), " "))
	}
	if r.ended == 0 {
		return errors.New("nothing was tested")
	}
	return nil
}

// lacking begins the reason of a test that was skipped because a program is not on this machine.
const lacking = "SKIPPED, NOTHING WAS TESTED: "
