package torture

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/history"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var usual = Options{Seed: 1, Time: 20 * time.Second, TTL: time.Second, Clients: 4, Processes: 2, Keys: 4, Rate: 200}

// The same seed is the same plan, also after a transfer to another process. Another seed is another
// plan.
func TestPlan_seed(t *testing.T) {
	plan := NewPlan(usual)
	if !reflect.DeepEqual(plan, NewPlan(usual)) {
		t.Error("the same seed made another plan")
	}
	text, err := json.Marshal(Job{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	var job Job
	if err := json.Unmarshal(text, &job); err != nil || !reflect.DeepEqual(plan, job.Plan) {
		t.Error(err, "a process gets another plan")
	}
	other := usual
	other.Seed++
	if reflect.DeepEqual(plan.Faults, NewPlan(other).Faults) || reflect.DeepEqual(plan.Links, NewPlan(other).Links) {
		t.Error("another seed made the same plan")
	}
	if a, b := plan.draws("x").Uint64(), NewPlan(usual).draws("x").Uint64(); a != b || a == plan.draws("y").Uint64() {
		t.Error("draws do not depend on seed and name alone")
	}
}

// Even the shortest run has pauses, kills and cuts, and a calm end. Pauses are longer than the TTL.
func TestPlan_faults(t *testing.T) {
	for seed := range uint64(200) {
		o := usual
		o.Seed, o.Time = seed, MinTime(o.TTL)
		p := NewPlan(o)
		seen := map[What]int{}
		for _, f := range p.Faults {
			seen[f.What]++
			if f.What != Kill && f.For <= o.TTL || f.At >= p.calm() {
				t.Errorf("seed %d: %+v", seed, f)
			}
		}
		if seen[Pause] == 0 || seen[Kill] == 0 || seen[Cut] == 0 {
			t.Errorf("seed %d: %v", seed, seen)
		}
		for who, l := range p.Links {
			if len(l.chances()) != len(linkFaults) || l["reply lost"] <= 0 {
				t.Errorf("seed %d: the link of %s is %v", seed, who, l)
			}
		}
	}
}

// Processes may only be paused or only be killed, and may have longer times without faults.
func TestPlan_kinds(t *testing.T) {
	o := usual
	o.Clients = 0
	count := func(change func(*Options)) map[What]int {
		o := o
		change(&o)
		seen := map[What]int{}
		for _, f := range NewPlan(o).Faults {
			seen[f.What]++
		}
		return seen
	}
	both := count(func(*Options) {})
	paused, killed := count(func(o *Options) { o.NoKills = true }), count(func(o *Options) { o.NoPauses = true })
	recovering := count(func(o *Options) { o.Recovery = 5 * o.TTL })
	if both[Pause] == 0 || both[Kill] == 0 || paused[Pause] == 0 || paused[Kill] != 0 || killed[Kill] == 0 || killed[Pause] != 0 {
		t.Error(both, paused, killed)
	}
	if n := recovering[Pause] + recovering[Kill]; n == 0 || n >= both[Pause]+both[Kill] {
		t.Error(both, recovering)
	}
}

// The silence of a process before it was killed is a stall that it could not report.
func TestRun_keep_silence(t *testing.T) {
	r := New(mem.New(), "", NewPlan(usual), "x/", nil)
	r.start = time.Now().Add(-10 * time.Second)
	for heard, want := range map[time.Duration]int{9 * time.Second: 1, 10*time.Second - tick: 0} {
		r.stalled = nil
		r.keep(&process{name: "p1.1", heard: r.start.Add(heard)}, 10*time.Second)
		if len(r.stalled) != want || want == 1 && r.stalled[0].Call.At != heard {
			t.Error(heard, r.stalled)
		}
	}
	r.stalled = nil
	if r.keep(&process{name: "p1.1", heard: r.start}, 0); len(r.stalled) != 0 { // the process ended by itself
		t.Error(r.stalled)
	}
}

// The holds of a killed process end with it. Its calls without an answer stay open.
func TestProcess_history(t *testing.T) {
	start := time.Now()
	p := &process{name: "p1.1", read: make(chan struct{})}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	rec := history.NewSince(start, func(n int, op history.Op) { _ = enc.Encode(message{N: n, Op: &op}) })
	h := rec.Acquire(history.Want{Client: "p1.1", Key: "k", TTL: time.Second})
	h.Granted(1, start.Add(time.Hour))
	rec.Acquire(history.Want{Client: "p1.1", Key: "k", TTL: time.Second}).Waiting()
	_ = enc.Encode(message{Stall: &stall{From: 1, To: 2}})
	text.WriteString(`{"n":7,"op":{"op":"acq`) // the process was killed here
	noted := 0
	p.listen(strings.NewReader(text.String()), func(*history.Op) { noted++ })
	if noted != 4 || p.strays != 1 || len(p.stalls) != 1 {
		t.Error(noted, p.strays, p.stalls)
	}
	died := time.Since(start)
	got := p.history(died)
	if len(got.Ops) != 4 || got.Ops[1].Outcome != history.Pending || got.Ops[1].Wait.Seq == 0 {
		t.Fatalf("%v", got.Ops)
	}
	for i, hold := range []int64{1, 2} {
		if gone := got.Ops[2+i]; gone.Kind != history.Gone || gone.Hold != hold || gone.Call.At != died {
			t.Errorf("%v", gone)
		}
	}
	rival := history.NewSince(start, nil)
	r := rival.Acquire(history.Want{Client: "p2.1", Key: "k", TTL: time.Second})
	r.Granted(200, start.Add(time.Hour))
	r.Release().End(history.Done)
	if v := history.Check(history.Merge(got, rival.History()), history.Rules{}); v.Err() != nil {
		t.Error(v.Err())
	}
}

// A stall that covers the end of trust excuses a late report of it.
func TestPauses(t *testing.T) {
	ops := pauses([]stall{{-5, 10}, {20, 30}}, []string{"a", "b"})
	if len(ops) != 4 || ops[0].Call.At != 0 || ops[0].What != history.Pause || ops[3].Client != "b" || ops[3].Return.At != 30 {
		t.Errorf("%v", ops)
	}
}

func TestReport_decide(t *testing.T) {
	enough := Report{Exclusive: minHolds, Waits: minWaits, OverHold: minFaults, Pauses: 1, Kills: 1, Cuts: 1}
	p := NewPlan(usual)
	for _, tt := range []struct {
		change func(*Report)
		want   Verdict
	}{
		{func(*Report) {}, Clean},
		{func(r *Report) { r.Exclusive-- }, NotEnough},
		{func(r *Report) { r.Waits-- }, NotEnough},
		{func(r *Report) { r.OverHold-- }, NotEnough},
		{func(r *Report) { r.Pauses = 0 }, NotEnough},
		{func(r *Report) { r.Kills = 0 }, NotEnough},
		{func(r *Report) { r.Cuts = 0 }, NotEnough},
		{func(r *Report) { r.Count = map[history.Invariant]int{history.I7: 1} }, Violated},
		{func(r *Report) { *r = Report{Count: map[history.Invariant]int{history.Model: 1}} }, Violated},
	} {
		r := enough
		tt.change(&r)
		if r.decide(p); r.Verdict != tt.want || (len(r.Why) > 0) != (tt.want == NotEnough) {
			t.Errorf("%+v, want %s", r, tt.want)
		}
	}
	o := usual
	o.Processes, o.Clients = 0, 0
	r := enough
	r.Pauses, r.Kills, r.Cuts = 0, 0, 0
	if r.decide(NewPlan(o)); r.Verdict != Clean {
		t.Errorf("faults are required that were not planned: %v", r.Why)
	}
}

func TestMeaning(t *testing.T) {
	for _, rule := range []history.Invariant{
		history.I2, history.I3, history.I4, history.I5, history.I6, history.I7, history.I9, history.I10, history.Model, history.Record,
	} {
		if Meaning(rule) == "" {
			t.Errorf("%s has no sentence", rule)
		}
	}
}

// With a correct store, in virtual time, every seed is clean.
func TestRun_clean(t *testing.T) {
	for seed := range uint64(10) {
		o := usual
		o.Seed, o.Processes, o.Time = seed, 0, MinTime(o.TTL)
		var r *Run
		synctest.Test(t, func(t *testing.T) {
			r = New(mem.New(), "", NewPlan(o), "x/", nil)
			if err := r.Play(t.Context()); err != nil {
				t.Error(err)
			}
		})
		rep, err := r.Check(t.TempDir())
		if err != nil || rep.Verdict != Clean || rep.Cuts == 0 || rep.Shared == 0 || rep.Counted == 0 || rep.Holds() < minHolds {
			t.Errorf("seed %d: %+v %v", seed, rep, err)
		}
		if rep.Stalls != 0 {
			t.Errorf("seed %d: a stall of %v in virtual time", seed, rep.Stalls)
		}
	}
}

// A run that is stopped leaves nothing in the store after Clean.
func TestRun_stopped(t *testing.T) {
	o := usual
	o.Processes = 0
	var r *Run
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		r = New(store, "", NewPlan(o), "x/", nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // as soon as there are some holds
			defer cancel()
			for r.Progress().Holds < 10 {
				time.Sleep(time.Millisecond)
			}
		}()
		if err := r.Play(ctx); err != nil {
			t.Error(err)
		}
		leave := func(key string) { // like a lost release
			q := driver.Request{ID: driver.ID{Key: key, Owner: "o"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Hour}
			if res, err := store.Acquire(t.Context(), q); err != nil || !res.Granted {
				t.Fatal(res, err)
			}
		}
		leave("x/orphan")
		leave("y")
		if n, err := r.Clean(t.Context()); err != nil || n < 1 {
			t.Error(n, err)
		}
		if err := r.Settle(t.Context()); err != nil {
			t.Error(err)
		}
		if claims, err := store.Show(t.Context(), "y"); err != nil || len(claims) != 1 {
			t.Error("the claim of another client was changed:", claims, err)
		}
		leave("x/late")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Settle(short); err == nil || !strings.Contains(err.Error(), "1 claims and queue entries are left") {
			t.Error(err)
		}
	})
	rep, err := r.Check(t.TempDir())
	if err != nil || rep.Verdict != NotEnough {
		t.Errorf("%+v %v", rep, err)
	}
}
