package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A shy store declares less than it supports, and fails the test when a call uses more. It has none
// of the optional verbs.
type shy struct {
	t        testing.TB
	mem      *mem.Store
	features driver.Features
}

func (s shy) Features() driver.Features { return s.features }

func (s shy) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	f := s.features
	for what, used := range map[string]bool{
		"a count":    !f.Count && r.Limit != driver.Whole,
		"a QueueTTL": !f.Queue && r.QueueTTL > 0,
		"a Floor":    !f.Floor && r.Floor != 0,
		"a value":    !f.Value && (len(r.Value) > 0 || len(r.Meta) > 0),
	} {
		if used {
			s.t.Errorf("the call uses %s, which is not declared", what)
		}
	}
	if err := r.Validate(f); err != nil {
		return driver.Result{}, err
	}
	if !f.Expiry {
		r.TTL = 1000 * time.Hour
	}
	res, err := s.mem.Acquire(ctx, r)
	if !f.Fence {
		res.Fence, res.Blocker.Fence = 0, 0
	}
	return res, err
}

func (s shy) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	if !s.features.Keep && r.Keep {
		s.t.Error("the call makes a record, which is not declared")
	}
	if !s.features.Value && len(r.Value) > 0 {
		s.t.Error("the call has a value, which is not declared")
	}
	if err := r.Validate(s.features); err != nil {
		return 0, err
	}
	if !s.features.Expiry {
		r.TTL = 1000 * time.Hour
	}
	return s.mem.Renew(ctx, r)
}

func (s shy) Release(ctx context.Context, id driver.ID) error { return s.mem.Release(ctx, id) }

// outgoing is shy with Show, Watch and Break.
type outgoing struct{ shy }

func (s outgoing) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	cs, err := s.mem.Show(ctx, key)
	for i := range cs {
		if !s.features.Fence {
			cs[i].Fence = 0
		}
	}
	return cs, err
}

func (s outgoing) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return s.mem.Watch(ctx, id)
}

func (s outgoing) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	cs, err := s.mem.Break(ctx, key, upTo, reason)
	for i := range cs {
		if !s.features.Fence {
			cs[i].Fence = 0
		}
	}
	return cs, err
}

// TestRun_undeclared shows that the suite never uses a feature that a store does not declare, and
// that the store passes without it.
func TestRun_undeclared(t *testing.T) {
	hides := map[string]func(f *driver.Features){
		"fence":  func(f *driver.Features) { f.Fence, f.Floor = false, false },
		"floor":  func(f *driver.Features) { f.Floor = false },
		"count":  func(f *driver.Features) { f.Count = false },
		"queue":  func(f *driver.Features) { f.Queue = false },
		"value":  func(f *driver.Features) { f.Value = false },
		"keep":   func(f *driver.Features) { f.Keep = false },
		"expiry": func(f *driver.Features) { f.Expiry = false },
		"short":  func(f *driver.Features) { f.MaxTTL = 2 * time.Minute },
		"long":   func(f *driver.Features) { f.MinTTL = time.Hour },
		"all": func(f *driver.Features) {
			*f = driver.Features{Name: f.Name}
		},
	}
	for name, hide := range hides {
		hidden := func(t testing.TB) shy {
			m := mem.New()
			f := m.Features()
			hide(&f)
			return shy{t, m, f}
		}
		t.Run(name, func(t *testing.T) {
			env := Env{Virtual: true, Many: fewer, Open: func(t testing.TB) driver.Store { return outgoing{hidden(t)} }}
			Run(t, env)
			Compare(t, env)
		})
		t.Run(name+" and no verbs", func(t *testing.T) {
			env := Env{Virtual: true, Many: fewer, Open: func(t testing.TB) driver.Store { return hidden(t) }}
			Run(t, env)
			Compare(t, env)
		})
	}
}

// TestRun_undeclared_rules shows that a rule is skipped only because of its needs.
func TestRun_undeclared_rules(t *testing.T) {
	for _, r := range rules() {
		v := r.run(t, Env{Virtual: true, Many: fewer, Open: func(t testing.TB) driver.Store {
			return shy{t, mem.New(), driver.Features{Name: "shy"}}
		}})
		if want := r.needs &^ (virtual | eve); v.missing != want {
			t.Errorf("the rule %q is skipped for lack of %q, want %q", r.name, v.missing, want)
		}
	}
}

// TestRules_catch_faults_without_verbs shows that the rules check the refusals of a store without
// Show.
func TestRules_catch_faults_without_verbs(t *testing.T) {
	byName := map[string]rule{}
	for _, r := range rules() {
		byName[r.name] = r
	}
	for _, f := range slices.Concat(hintFaults(), valueFaults()) {
		if f.name == "Show does not copy" {
			continue
		}
		env := bentEnv(f.bend)
		open := env.Open
		env.Open = func(t testing.TB) driver.Store { return struct{ driver.Store }{open(t)} }
		for _, name := range f.rules {
			if v := byName[name].run(t, env); v.failure == "" {
				t.Errorf("%s: the rule %q holds (missing %v)", f.name, name, v.missing)
			}
		}
	}
}
