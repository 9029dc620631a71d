// Command testlog reads the output of `go test -json` and prints a short report: go's own line for
// each package, the whole output of failed tests, the skipped tests with their reasons, and one
// line with the totals. Plain `go test` hides skips, and -v prints too much.
//
// usage: go test -json ./... | TESTLOG_SECRET=... TESTLOG_TIMES=FILE testlog
//
// It exits with 1 if a test or a build failed, if nothing was tested, if a test printed the secret
// (the password of the tests), or if the list of processes showed the secret meanwhile. FILE gets
// the time of each package and test, in seconds.
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
	secret := os.Getenv("TESTLOG_SECRET") // an argument would be visible to every user
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

// A report collects the events that were read so far.
type report struct {
	out     io.Writer
	said    map[string]map[string][]string // by package and test: the output that may still be printed
	skips   map[string][]string            // by reason: the tests
	reasons []string                       // the keys of skips, in order
	ended   int                            // packages that have ended
	failed  []string                       // packages
	secret  string                         // text that no test may print; empty: none
	shown   []string                       // the tests that printed it
	passed  int                            // tests
	broken  int                            // tests that failed, or never ended
	skipped int
	times   strings.Builder // lines of seconds, package, test
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

// line processes one line. A line that is no event (a message of the go command itself) is printed.
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

// verdict prints a package that has ended: one line if it passed, otherwise the whole output of the
// tests that did not pass. That includes tests that a panic or a timeout interrupted.
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

// why repeats the messages of a test below the logs of its servers, so that the end of a long
// output has the reason.
func (r *report) why(pkg, test string, said []string) {
	const few = 20 // lines that fit on a screen
	if len(said) <= few {
		return
	}
	for _, s := range said {
		if strings.Contains(s, "_test.go:") {
			fmt.Fprintf(r.out, "why %s.%s: %s\n", pkg, test, strings.TrimSpace(s))
		}
	}
}

// skip records a skipped test under its reason: its output, without the lines of go.
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
	case strings.Contains(why, ": needs "): // a client may have logged before it
		// drivertest skips each rule about a feature that a store does not declare. There are
		// hundreds of them, and they are intended: one line for all keeps the others visible.
		why = "the store does not declare the feature"
	}
	if r.skips[why] == nil {
		r.reasons = append(r.reasons, why)
	}
	r.skips[why] = append(r.skips[why], e.Package+"."+e.Test)
}

// finish prints the skips and the totals, and returns an error unless everything passed.
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

// lacking is the start of the reason of a test that was skipped because a program is missing.
const lacking = "SKIPPED, NOTHING WAS TESTED: "
