package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a search that ends, however slow the machine is: the longest of these takes some
// seconds on an idle machine.
var patient = Search{Timeout: 10 * time.Minute}

// simRules are the rules that a correct simulation keeps.
var simRules = Rules{
	Stuck:    20 * time.Second,
	HandOver: time.Second,
	Takeover: time.Second,
	Heal:     time.Second,
	Min:      Minimums{Grants: 40, ContendedWaits: 10},
}

func TestVerify_no_false_alarm(t *testing.T) {
	t.Parallel()
	runs := uint64(80)
	if testing.Short() {
		runs = 10
	}
	var total Verdict
	for _, kind := range []string{"mutex", "rw", "slots"} {
		for seed := range runs {
			v, err := Verify(simulate(t, seed, kind, none, 5, 20), simRules, patient)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", kind, seed, err)
			}
			total.Grants += v.Grants
			total.Waits += v.Waits
			total.Unknown += v.Unknown
			total.FaultsOverHold += v.FaultsOverHold
			total.LostPlain += v.LostPlain
		}
	}
	t.Logf("%+v", total)
	if total.Unknown == 0 || total.FaultsOverHold == 0 {
		t.Error("the simulation is too kind")
	}
	if total.LostPlain == 0 {
		t.Error("a register without fences must lose updates when holders are paused")
	}
}

// The search could take exponential time on contended histories. A bound on real time would be
// flaky, so the cost is only logged; the timeout of the search is the bound.
func TestVerify_contended(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ clients, rounds int }{{5, 60}, {10, 60}, {20, 100}} {
		for _, kind := range []string{"mutex", "rw", "slots"} {
			h := simulate(t, 7, kind, none, c.clients, c.rounds)
			rules := simRules
			rules.Stuck = 0 // patience is 10 s, and the queue is not fair
			began := time.Now()
			if err := Check(h, rules).Err(); err != nil {
				t.Errorf("%s, %d clients: %v", kind, c.clients, err)
			}
			checked := time.Now()
			if _, err := Verify(h, rules, patient); err != nil {
				t.Errorf("%s, %d clients: %v", kind, c.clients, err)
			}
			t.Logf("%s: %d clients, %d operations: check %v, check and search %v",
				kind, c.clients, len(h.Ops), checked.Sub(began), time.Since(checked))
		}
	}
}

func TestVerify_flags_each_bug(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bug  bug
		kind string
		want []Invariant // each must be flagged in some run
	}{
		{releaseByKey, "mutex", []Invariant{I3, Model}},
		{fenceRepeats, "mutex", []Invariant{I2, Model}},
		{fenceReset, "mutex", []Invariant{I2, Model}},
		{fenceReset, "slots", []Invariant{I2, Model}},
		{renewIgnored, "mutex", []Invariant{I3, Model}},
		{trustFromReply, "mutex", []Invariant{I3, Model}},
		{reportedLate, "mutex", []Invariant{I4}},
		{notReported, "mutex", []Invariant{I4}},
		{saysHeld, "mutex", []Invariant{I4}},
		{oneTooMany, "slots", []Invariant{I3, Model}},
		{writerWithReader, "rw", []Invariant{I3, Model}},
		{lateWrite, "mutex", []Invariant{I1}},
		{readUnguarded, "mutex", []Invariant{I1}},
		{stuckWaiter, "mutex", []Invariant{I5, I6}},
		{slowWaiter, "mutex", []Invariant{I7}},
		{theft, "mutex", []Invariant{I3, I9, Model}},
		{untyped, "mutex", []Invariant{I10}},
		{doubleGrant, "mutex", []Invariant{I3, Model}},
		{doubleGrant, "slots", []Invariant{I3, Model}},
		{downgradeUnlocked, "rw", []Invariant{I3, Model}},
	} {
		t.Run(c.kind+"/"+string(c.bug), func(t *testing.T) {
			missing := map[Invariant]bool{}
			for _, i := range c.want {
				missing[i] = true
			}
			flagged := 0
			for seed := range uint64(10) {
				v, err := Verify(simulate(t, seed, c.kind, c.bug, 5, 20), simRules, Search{})
				if err != nil {
					flagged++
				}
				for i := range v.Count {
					delete(missing, i)
				}
			}
			if len(missing) > 0 {
				t.Errorf("not flagged by %v", missing)
			}
			t.Logf("flagged in %d of 10 histories", flagged)
		})
	}
}

func TestVerify_empty_proves_nothing(t *testing.T) {
	if v := Check(&History{}, Rules{}); v.Count[Minimum] != 2 {
		t.Error("an empty history has grants, or waits")
	}
	r := New()
	r.Acquire(Want{Client: "a", Key: "k"}).Granted(1, time.Time{})
	if v := Check(r.History(), Rules{}); v.Count[Minimum] == 0 {
		t.Error("a history without contention passes")
	}
	w := r.Acquire(Want{Client: "b", Key: "k"})
	w.Waiting()
	w.Ended(Refused)
	if err := Check(r.History(), Rules{}).Err(); err != nil {
		t.Error(err)
	}
	if v := Check(r.History(), Rules{Min: Minimums{FaultsOverHold: 1}}); v.Count[Minimum] != 1 {
		t.Error("a history without faults passes")
	}
	r.Fault("b", "cut", time.Now(), time.Now()) // b holds nothing
	if v := Check(r.History(), Rules{Min: Minimums{FaultsOverHold: 1}}); v.Count[Minimum] != 1 {
		t.Error("a fault of another client counts")
	}
	r.Fault("a", "cut", time.Now(), time.Now())
	if v := Check(r.History(), Rules{Min: Minimums{FaultsOverHold: 1}}); v.Err() != nil {
		t.Error(v.Err())
	}
}

func TestVerify_timeout_is_a_failure(t *testing.T) {
	h := simulate(t, 1, "mutex", none, 10, 300) // a third of a second's search: a short one may end before the timer is looked at
	v, err := Verify(h, simRules, Search{Timeout: 1})
	if err == nil || v.Count[Model] == 0 {
		t.Errorf("a search that did not end passes: %v", err)
	}
}

func TestVerify_writes_what_failed(t *testing.T) {
	dir := t.TempDir()
	h := simulate(t, 1, "mutex", doubleGrant, 5, 20)
	_, err := Verify(h, simRules, Search{Dir: dir, Name: "seed1"})
	var f *Failure
	if !errors.As(err, &f) || len(f.Files) != 2 {
		t.Fatalf("%v, want a Failure with 2 files", err)
	}
	key := h.Ops[0].Key
	page, _ := os.ReadFile(filepath.Join(dir, PictureName("seed1", key)))
	if !strings.Contains(string(page), "<title>seed1 "+key+"</title>") {
		t.Error("the picture does not name its key and seed")
	}
	for _, file := range f.Files {
		if !strings.Contains(err.Error(), file) {
			t.Errorf("the error does not name %s", file)
		}
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	file, err := os.Open(filepath.Join(dir, "seed1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	back, err := ReadJSON(file)
	if err != nil || !reflect.DeepEqual(h, back) {
		t.Errorf("the history that was read differs from the one that was written: %v", err)
	}
}

func TestReadJSON_refuses_other_things(t *testing.T) {
	for _, s := range []string{"{", `{"op":"dance"}`, `{"op":"acquire","outcome":"maybe"}`} {
		if _, err := ReadJSON(bytes.NewBufferString(s)); err == nil {
			t.Errorf("%s is read", s)
		}
	}
}
