package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/internal/lab/torture"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// planned returns an Env that Plan accepts, without servers.
func planned(name string) *Env {
	e := &Env{System: Find(name), Nodes: []*Node{{}}}
	return e
}

var usual = Options{Seed: 1, Time: 2 * time.Minute, TTL: time.Second, Processes: 4}

// The same seed is the same plan, another seed is another plan, and every kind that can be made
// here comes three times in two minutes.
func TestEnv_Plan(t *testing.T) {
	for _, s := range Systems() {
		e := planned(s.Name)
		plan := e.Plan(usual)
		if !reflect.DeepEqual(plan, e.Plan(usual)) {
			t.Errorf("%s: the same seed made another plan", s.Name)
		}
		other := usual
		other.Seed++
		if len(plan) > 0 && reflect.DeepEqual(plan, e.Plan(other)) {
			t.Errorf("%s: another seed made the same plan", s.Name)
		}
		seen := map[Kind]int{}
		for i, ev := range plan {
			seen[ev.Kind]++
			if ev.At+ev.For > usual.Time-3*usual.TTL || i > 0 && ev.At < plan[i-1].At+plan[i-1].For {
				t.Errorf("%s: %v comes too late, or before the last had ended", s.Name, ev)
			}
			if how(ev.Kind).client != (ev.Who != "") {
				t.Errorf("%s: %v has the wrong target", s.Name, ev)
			}
		}
		for _, f := range e.applied(usual) {
			if seen[f.Kind] < 3 {
				t.Errorf("%s: %s comes %d times in %v", s.Name, f.Kind, seen[f.Kind], usual.Time)
			}
		}
	}
	e := planned("redis")
	o := usual
	o.Promised = true
	if slices.ContainsFunc(e.Plan(o), func(ev Event) bool { return ev.Kind == ServerEmptied }) {
		t.Error("a fault under which less is promised came")
	}
	o.Only = []Kind{Reset}
	if slices.ContainsFunc(e.Plan(o), func(ev Event) bool { return ev.Kind != Reset }) {
		t.Error("another kind came")
	}
}

func TestSystems(t *testing.T) {
	names := map[string]bool{}
	for _, s := range Systems() {
		if names[s.Name] || Find(s.Name) == nil || s.Memory != (s.local != nil) ||
			s.Memory == (s.start != nil) {
			t.Errorf("%s is incomplete, or there twice", s.Name)
		}
		names[s.Name] = true
		for _, f := range s.Faults {
			how(f.Kind) // or it panics
		}
	}
	if Find("nothing") != nil {
		t.Error("something was found")
	}
}

// A forgetful store loses every fourth claim.
type forgetful struct {
	driver.Store
	n atomic.Int64
}

func (f *forgetful) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := f.Store.Acquire(ctx, r)
	if n := f.n.Add(1); err == nil && res.Granted && n%4 == 0 {
		err = f.Store.Release(ctx, r.ID)
	}
	return res, err
}

// A broken store is detected. Its history and a picture of it are in the folder that the error
// names.
func TestRun_Check_broken(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := *Find("memory")
	s.local = func() driver.Store { return &forgetful{Store: mem.New()} }
	o := Options{Seed: 1, Time: 2 * time.Second, TTL: 300 * time.Millisecond, Processes: 4, Keys: 2,
		Play: "chaos", Calm: true}
	r := s.Start(t, o).Run(t, o)
	_, err := r.Check(history.Minimums{})
	if err == nil || !strings.Contains(err.Error(), "I3") || !strings.Contains(err.Error(), "seed 1") {
		t.Fatalf("not detected: %v", err)
	}
	kept(t, err, "whole.jsonl", "memory-seed-1-key-*.html")
}

// kept looks for files in the folder that an error names.
func kept(t *testing.T, err error, patterns ...string) (last string) {
	t.Helper()
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"),
			"distlock-proof-memory-seed-*", pattern))
		found = slices.DeleteFunc(found,
			func(path string) bool { return err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) })
		if len(found) == 0 {
			t.Errorf("no %s in the folder that the error names: %v", pattern, err)
			continue
		}
		last = found[0]
	}
	return last
}

// Whatever is wrong with a run, its history, its notes and a picture of the key in question are
// kept.
func TestRun_Check_keeps(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	good := made("proof/1/2", [3]int{1, 1000, 3000}, [3]int{2, 4000, 5000})
	twice := made("proof/1/2", [3]int{1, 1000, 3000}, [3]int{2, 2000, 4000})
	open := made("proof/1/2", [3]int{1, 1000, 3000}, [3]int{2, 4000, 5000})
	for i := range 4 { // more than one in twenty of 60
		at := history.Stamp{At: time.Duration(6+i) * time.Second, Seq: int64(100 + i)}
		open.Ops = append(open.Ops, history.Op{
			Kind: history.Acquire, Outcome: history.Unknown, Key: "proof/1/2", Client: "p1", Hold: int64(10 + i), Weight: 1, Limit: 1,
			Call: at, Wait: at, Return: at,
		})
	}
	for name, tt := range map[string]struct {
		run   Run
		min   history.Minimums
		found []error
	}{
		"found by another check": {Run{History: good}, history.Minimums{},
			[]error{errors.New("proof/1/2 was reported late")}},
		"found, and no key named": {Run{History: good}, history.Minimums{},
			[]error{nil, errors.New("something was reported late")}},
		"a process that fails": {Run{History: good, wrong: []error{errors.New("exit status 1")}},
			history.Minimums{}, nil},
		"left behind": {Run{History: good, Left: "a connection"}, history.Minimums{}, nil},
		"too little":  {Run{History: good}, history.Minimums{Grants: 100}, nil},
		"too little of another": {Run{History: good}, history.Minimums{},
			[]error{fmt.Errorf("%w: 0 pairs", ErrTooLittle)}},
		"too little is known": {Run{History: open}, history.Minimums{}, nil},
		"no search": {Run{History: twice, Options: Options{NoModel: true}},
			history.Minimums{}, nil},
		"no operations, but notes": {*bare(torture.Note{Who: "p1", What: "did", Key: "proof/1/2",
			Value: "x"}), history.Minimums{}, []error{errors.New("proof/1/2 was done twice")}},
	} {
		r := tt.run
		r.Env, r.Seed, r.TTL, r.Processes = &Env{System: Find("memory")}, 7, time.Second, 2
		_, err := r.Check(tt.min, tt.found...)
		if err == nil || strings.HasPrefix(name, "too little") != errors.Is(err, ErrTooLittle) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		page, _ := os.ReadFile(kept(t, err, "whole.jsonl", "notes.jsonl",
			"memory-seed-7-key-proof_1_2.html"))
		if !strings.Contains(string(page), "<title>memory-seed-7 proof/1/2</title>") || !strings.Contains(string(page), `"p1"`) {
			t.Errorf("%s: the picture does not name its key, or is empty", name)
		}
	}
	many := slices.Repeat([]error{errors.New("late")}, 30)
	if wrong, _ := sorted(many); len(wrong) != 11 || wrong[10].Error() != "and 20 more" {
		t.Error(wrong)
	}
}

// A run in which too little happened fails.
func TestRun_Check_notEnough(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := Options{Seed: 1, Time: time.Second, TTL: 300 * time.Millisecond, Processes: 3,
		Keys: 2, Play: "chaos"}
	r := Find("memory").Start(t, o).Run(t, o)
	if _, err := r.Check(history.Minimums{}); err != nil {
		t.Error(err)
	}
	for _, m := range []history.Minimums{{Grants: 1e6}, {ContendedWaits: 1e6}, {FaultsOverHold: 1e6}} {
		if _, err := r.Check(m); !errors.Is(err, ErrTooLittle) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	r.Left = "a connection"
	if _, err := r.Check(history.Minimums{Grants: 1e6}); err == nil || errors.Is(err, ErrTooLittle) ||
		!strings.Contains(err.Error(), "left behind: a connection") {
		t.Error(err)
	}
}

// made returns a history of grants of one key: the process, from and to in milliseconds.
func made(key string, grants ...[3]int) *history.History {
	h := &history.History{End: 100 * time.Second}
	var seq int64
	at := func(ms int) history.Stamp {
		seq++
		return history.Stamp{At: time.Duration(ms) * time.Millisecond, Seq: seq}
	}
	for i, g := range grants {
		id, who := int64(i+1), fmt.Sprint("p", g[0])
		h.Ops = append(h.Ops,
			history.Op{
				Kind: history.Acquire, Outcome: history.Granted, Key: key, Client: who, Hold: id, Weight: 1, Limit: 1,
				Fence: uint64(128 * (i + 1)), Until: time.Duration(g[2]) * time.Millisecond,
				Call: at(g[1]), Wait: at(g[1]), Return: at(g[1]),
			},
			history.Op{Kind: history.Lost, Outcome: history.Done, Key: key, Client: who, Hold: id,
				Call: at(g[2]), Return: at(g[2])})
	}
	return history.Merge(h)
}

// Two holders are allowed after a fault under which exclusion is not promised. They are a violation
// before it, and for other clients.
func TestRun_Check_unpromised(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	twice := made("k", [3]int{1, 1000, 3000}, [3]int{2, 2000, 4000})
	ms := time.Millisecond
	for name, tt := range map[string]struct {
		weak []window
		ok   bool
	}{
		"no fault":          {nil, false},
		"fault":             {[]window{{"", 1500 * ms, 2500 * ms, forgotten}}, true},
		"to one of them":    {[]window{{"p1", 1500 * ms, 2500 * ms, forgotten}}, true},
		"to another client": {[]window{{"p3", 1500 * ms, 2500 * ms, forgotten}}, false},
		"long before":       {[]window{{"", 0, 10 * ms, forgotten}}, false},
		"long after":        {[]window{{"", 90000 * ms, 91000 * ms, forgotten}}, false},
		"it excuses less":   {[]window{{"", 1500 * ms, 2500 * ms, []history.Invariant{history.I4}}}, false},
		"another came before": {[]window{{"", 0, 10 * ms, forgotten},
			{"", 1500 * ms, 2500 * ms, forgotten}}, true},
	} {
		r := &Run{Env: &Env{System: Find("memory")}, Options: Options{TTL: 500 * ms, Processes: 2},
			History: twice, weak: tt.weak}
		v, err := r.Check(history.Minimums{})
		if (err == nil) != tt.ok || tt.ok && v.Unpromised == 0 {
			t.Errorf("%s: %v %v", name, v, err)
		}
	}
}

// Unknown outcomes are counted, and more than one in twenty that no fault explains are a violation.
func TestRun_Check_unknown(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := made("k", [3]int{1, 1000, 3000}, [3]int{2, 60000, 61000})
	at := func(ms int) history.Stamp {
		return history.Stamp{At: time.Duration(ms) * time.Millisecond, Seq: int64(len(h.Ops) + 1)}
	}
	for range 4 {
		h.Ops = append(h.Ops, history.Op{Kind: history.Renew, Outcome: history.Unknown, Key: "k",
			Client: "p1", Hold: 1, Call: at(1900), Return: at(2000)})
	}
	h.Ops = append(h.Ops, history.Op{Kind: history.Acquire, Outcome: history.Unknown,
		What: history.GivenUp, Key: "k", Client: "p1", Hold: 9, Call: at(1900), Return: at(2000)})
	for name, tt := range map[string]struct {
		fault history.Op
		ok    bool
	}{
		"during a fault":          {fault("pause", "p1", 1500, 2500), true},
		"a moment after it":       {fault("server killed", "", 1000, 1200), true},
		"long after it":           {fault("pause", "p1", 100, 200), false},
		"before it":               {fault("pause", "p1", 2100, 2200), false},
		"in the fault of another": {fault("pause", "p2", 1500, 2500), false},
	} {
		whole := history.Merge(&history.History{Ops: append(slices.Clone(h.Ops), tt.fault), End: h.End})
		r := &Run{Env: &Env{System: Find("memory")},
			Options: Options{TTL: time.Second, Processes: 2, NoModel: true}, History: whole}
		v, err := r.Check(history.Minimums{})
		if v.Operations != 7 || v.Unknown != 5 || v.Unexplained > 4 || (v.Unexplained == 0) != tt.ok ||
			(err == nil) != tt.ok {
			t.Errorf("%s: %v: %v", name, v, err)
		}
	}
}

// bare returns a run of notes.
func bare(notes ...torture.Note) *Run {
	for i := range notes {
		notes[i].At = time.Duration(i+1) * time.Second
	}
	return &Run{Options: Options{TTL: time.Second},
		History: &history.History{End: time.Minute}, Notes: notes}
}

func TestRun_Results(t *testing.T) {
	did := func(v string) torture.Note { return torture.Note{What: "did", Key: "k", Value: v} }
	result := func(v string) torture.Note { return torture.Note{What: "result", Key: "k", Value: v} }
	for name, tt := range map[string]struct {
		run *Run
		bad int
	}{
		"once":                 {bare(did("a"), result("a"), result("a")), 0},
		"again, no result yet": {bare(did("a"), did("b"), result("b")), 0},
		"again after a result": {bare(did("a"), result("a"), did("b")), 1},
		"two results":          {bare(did("a"), did("b"), result("a"), result("b")), 1},
	} {
		if _, _, errs := tt.run.Results(); len(errs) != tt.bad {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

func TestRun_Terms(t *testing.T) {
	leads := func(who string, n int) torture.Note {
		return torture.Note{Who: who, What: "leads", Key: "k", Value: fmt.Sprint(n)}
	}
	led := func(who string, n int, last time.Duration) torture.Note {
		return torture.Note{Who: who, What: "led", Key: "k", Value: fmt.Sprint(n, " ", int64(last))}
	}
	looks := func(who string, n int, last time.Duration) torture.Note {
		note := led(who, n, last)
		note.What = "looks"
		return note
	}
	for name, tt := range map[string]struct {
		run *Run
		bad int
	}{
		"in order": {bare(leads("a", 1), led("a", 1, 2*time.Second), leads("b", 2)), 0},
		"at once":  {bare(leads("a", 1), leads("b", 2), led("a", 1, 3*time.Second)), 1},
		"back":     {bare(leads("a", 2), led("a", 2, time.Second), leads("b", 1)), 1},
		"the same": {bare(leads("a", 2), led("a", 2, time.Second), leads("b", 2)), 1},
		"ended after a pause": {bare(leads("a", 1), leads("b", 2),
			led("a", 1, 1500*time.Millisecond)), 0},
		"killed before": {bare(leads("a", 1), looks("a", 1, 1500*time.Millisecond),
			leads("b", 2)), 0},
		"killed, but later": {bare(leads("a", 1), leads("b", 2),
			looks("a", 1, 2500*time.Millisecond)), 1},
		"an error of its own": {bare(torture.Note{What: "failed", Key: "k"}), 1},
	} {
		if _, errs := tt.run.Terms(); len(errs) != tt.bad {
			t.Errorf("%s: %v", name, errs)
		}
	}
}

// A waiter that was in the queue when another came is granted before it, unless it met a fault.
func TestRun_Order(t *testing.T) {
	h := made("k", [3]int{1, 1000, 1001}, [3]int{2, 2000, 2001}, [3]int{3, 3000, 3001})
	op := func(n int) *history.Op { // the n-th acquire
		return &h.Ops[slices.IndexFunc(h.Ops,
			func(o history.Op) bool { return o.Kind == history.Acquire && o.Hold == int64(n) })]
	}
	r := &Run{Options: Options{TTL: time.Millisecond}, History: h}
	op(1).Return = history.Stamp{At: 2500 * time.Millisecond, Seq: op(2).Return.Seq + 1}
	if pairs, errs := r.Order(); pairs != 1 || len(errs) != 1 {
		t.Error(pairs, errs)
	}
	h.Ops = append(h.Ops, history.Op{
		Kind: history.Fault, Client: "p1", Call: history.Stamp{At: 1500 * time.Millisecond}, Return: history.Stamp{At: 1600 * time.Millisecond},
	})
	if pairs, errs := r.Order(); pairs != 0 || len(errs) != 0 {
		t.Error(pairs, errs)
	}
}

// fault returns a fault of a client, with times in milliseconds.
func fault(what Kind, client string, from, to int) history.Op {
	return history.Op{
		Kind: history.Fault, What: string(what), Client: client,
		Call:   history.Stamp{At: time.Duration(from) * time.Millisecond},
		Return: history.Stamp{At: time.Duration(to) * time.Millisecond},
	}
}

func TestRun_Reported(t *testing.T) {
	for name, tt := range map[string]struct {
		last           int // when a check last said that the lease is held
		fault          history.Op
		events, inTime int
	}{
		"in time":                {1400, fault("pause", "p1", 1200, 3000), 1, 1},
		"a look too many":        {2100, fault("pause", "p1", 1200, 3000), 1, 0},
		"ended before the trust": {1400, fault("pause", "p1", 1200, 1300), 0, 0},
		"to another":             {1400, fault("pause", "p2", 1200, 3000), 0, 0},
		"killed":                 {1400, fault(Kind(torture.Kill), "p1", 1200, 3000), 0, 0},
	} {
		h := made("k", [3]int{1, 1000, 2000})
		h.Ops = append(h.Ops, tt.fault)
		r := bare(torture.Note{What: "last look", Who: "p1", Key: "k",
			Value: fmt.Sprint(128, " ", tt.last*1e6, " ", int(2000*1e6))})
		r.History = h
		if events, inTime, errs := r.Reported(); events != tt.events || inTime != tt.inTime ||
			len(errs) != events-inTime {
			t.Errorf("%s: %d %d %v", name, events, inTime, errs)
		}
	}
}

func TestRun_Takeovers(t *testing.T) {
	for name, tt := range map[string]struct {
		granted int
		handed  bool // and not renewed yet
		others  []history.Op
		n, bad  int
	}{
		"soon":             {2900, false, nil, 1, 0},
		"late":             {3600, false, nil, 1, 1},
		"handed off":       {5400, true, nil, 1, 0},
		"handed off, late": {5600, true, nil, 1, 1},
		"after another kill": {3600, false,
			[]history.Op{fault(Kind(torture.Kill), "p3", 100, 100)}, 0, 0},
		"next to a pause": {3600, false, []history.Op{fault("pause", "p3", 1000, 2000)}, 0, 0},
	} {
		h := made("k", [3]int{1, 1000, 50000}, [3]int{2, tt.granted, 60000})
		if !tt.handed {
			h.Ops = append(h.Ops, history.Op{
				Kind: history.Renew, Outcome: history.Done, Key: "k", Client: "p1", Hold: 1, Return: history.Stamp{At: 1300 * time.Millisecond},
			})
		}
		wait := slices.IndexFunc(h.Ops,
			func(o history.Op) bool { return o.Kind == history.Acquire && o.Hold == 2 })
		h.Ops[wait].Wait.At = 1200 * time.Millisecond
		h.Ops = append(h.Ops, fault(Kind(torture.Kill), "p1", 1500, 1500))
		h.Ops = append(h.Ops, tt.others...)
		r := &Run{Options: Options{TTL: time.Second}, History: h}
		n, handed, worst, errs := r.Takeovers()
		if n+handed != tt.n || (handed > 0) != tt.handed || len(errs) != tt.bad ||
			n > 0 && worst != time.Duration(tt.granted-1500)*time.Millisecond {
			t.Errorf("%s: %d %d %v %v", name, n, handed, worst, errs)
		}
	}
}

func TestRun_Heals(t *testing.T) {
	h := made("k", [3]int{1, 1000, 1100}, [3]int{2, 5000, 5100})
	r := &Run{Options: Options{TTL: time.Second}, History: h}
	for end, bad := range map[int]int{1900: 1, 2100: 0} {
		h.Ops[len(h.Ops)-1] = fault(ServerKilled, "", 1500, end)
		if n, worst, errs := r.Heals(); n != 1 || len(errs) != bad ||
			worst != time.Duration(5000-end)*time.Millisecond {
			t.Errorf("%d %v %v", n, worst, errs)
		}
	}
}

// Files and goroutines that a process opens and starts, and does not end, are found.
func TestInventory(t *testing.T) {
	if len(openFiles()) == 0 {
		t.Skip("the system does not list open files")
	}
	before := newInventory()
	if err := before.compare(); err != nil {
		t.Error(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if err := before.compare(); err == nil || !strings.Contains(err.Error(), os.DevNull) {
		t.Errorf("an open file: %v", err)
	}
	f.Close()
	stop := make(chan struct{})
	go func() { <-stop }()
	if err := before.compare(); err == nil || !strings.Contains(err.Error(), "goroutines") {
		t.Errorf("a goroutine: %v", err)
	}
	close(stop)
}

// The counters of every kind of resource refuse stale writes, or accept them if they are plain.
func TestResource(t *testing.T) {
	file, err := openResource(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []resource{file, &memoryResource{}} {
		older, newer := proof(t, 128), proof(t, 256)
		ctx := t.Context()
		if n, err := r.read(ctx, older, "k"); n != 0 || err != nil {
			t.Error(n, err)
		}
		if err := r.write(ctx, older, "k", 1); err != nil {
			t.Error(err)
		}
		if n, err := r.read(ctx, newer, "k"); n != 1 || err != nil {
			t.Error(n, err)
		}
		if err := r.write(ctx, older, "k", 2); !errors.Is(err, fence.ErrStale) {
			t.Error(err)
		}
		if err := r.writePlain(ctx, "k", 7); err != nil {
			t.Error(err)
		}
		if n, err := r.readPlain(ctx, "k"); n != 7 || err != nil {
			t.Error(n, err)
		}
		r.close()
	}
	if _, err := openResource(t.Context(), "gopher://x"); err == nil {
		t.Error("it is no resource")
	}
}

func proof(t *testing.T, n uint64) fence.Proof {
	t.Helper()
	p, err := fence.New("k", n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
