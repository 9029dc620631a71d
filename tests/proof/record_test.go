package proof_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var record = flag.String("record", "", "the file to which the figures of long runs are written")

// A figure is a result of a long run. Package promise reads them.
type figure struct {
	Store   string `json:"store"`
	Figure  string `json:"figure"`
	Value   string `json:"value"`
	Seed    uint64 `json:"seed"`
	Command string `json:"command"`
	Date    string `json:"date"`
}

var recording sync.Mutex

// write records figures. It replaces older figures of the same store and name.
func write(t testing.TB, figures ...figure) {
	t.Helper()
	for i := range figures {
		f := &figures[i]
		f.Date = time.Now().Format(time.DateOnly)
		t.Logf("FIGURE %s: %s: %s (seed %d)", f.Store, f.Figure, f.Value, f.Seed)
	}
	if *record == "" || t.Failed() {
		return
	}
	recording.Lock()
	defer recording.Unlock()
	var all []figure
	text, err := os.ReadFile(*record)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, f := range figures {
		all = slices.DeleteFunc(all,
			func(o figure) bool { return o.Store == f.Store && o.Figure == f.Figure })
		all = append(all, f)
	}
	slices.SortStableFunc(all,
		func(a, b figure) int { return cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Figure, b.Figure)) })
	text, err = json.MarshalIndent(all, "", "\t")
	if err == nil {
		err = os.WriteFile(*record, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A manual run records its figures only if a file is given. The run for the document records them
// in the file of the document.
func TestMake(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED, NOTHING WAS TESTED: there is no make on this machine")
	}
	for args, want := range map[string]string{
		"soak TIME=3s": `"-record="`, "soak FIGURES=/x.json": `"-record=/x.json"`, "figures FIGURES=/x.json": `"-record=/x.json"`,
		"figures": `/internal/promise/nightly.json"`,
	} {
		cmd := exec.Command("make", append([]string{"-n", "-C", "../.."}, strings.Fields(args)...)...)
		// variables of a make that runs this test
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "FIGURES=")
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s: %v: %s", args, err, out)
		}
	}
}
