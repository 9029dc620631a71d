package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A shy store declares less than it can, and complains when it is asked for more. It has none
// of the verbs that a store may lack.
type shy struct {
	t        testing.TB
	mem      *mem.Store
	features driver.Features
}

func (s shy) Features() driver.Features { return s.features }

func (s shy) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	f := s.features
	for what, asked := range map[string]bool{
		"a count": !f.Count && r.Limit != driver.Whole,
		"a place": !f.Queue && r.QueueTTL > 0,
		"a Floor": !f.Floor && r.Floor != 0,
		"a value": !f.Value && (len(r.Value) > 0 || len(r.Meta) > 0),
	} {
		if asked {
			s.t.Errorf("asked for %s, which is not declared", what)
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
		s.t.Error("asked for a record, which is not declared")
	}
	if !s.features.Value && len(r.Value) > 0 {
		s.t.Error("asked for a value, which is not declared")
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

// outgoing is shy with the verbs that tell.
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

func (s outgoing) Break(ctx context.Context, key, reason string) ([]driver.Claim, error) {
	cs, err := s.mem.Break(ctx, key, reason)
	for i := range cs {
		if !s.features.Fence {
			cs[i].Fence = 0
		}
	}
	return cs, err
}

// TestRun_undeclared shows that what a store does not declare is never asked of it, and that
// it passes without.
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

// TestRun_undeclared_laws shows that a law is left out for what it needs and nothing else.
func TestRun_undeclared_laws(t *testing.T) {
	for _, l := range laws() {
		v := l.judge(t, Env{Virtual: true, Many: fewer, Open: func(t testing.TB) driver.Store {
			return shy{t, mem.New(), driver.Features{Name: "shy"}}
		}})
		if want := l.needs &^ (virtual | eve); v.missing != want {
			t.Errorf("the law %q is not asked for want of %q, want %q", l.name, v.missing, want)
		}
	}
}

// TestLaws_catch_faults_without_verbs shows that a store which cannot show is held to what it
// tells with its refusals.
func TestLaws_catch_faults_without_verbs(t *testing.T) {
	byName := map[string]law{}
	for _, l := range laws() {
		byName[l.name] = l
	}
	for _, f := range slices.Concat(hintFaults(), valueFaults()) {
		if f.name == "Show gives away the store's own" {
			continue
		}
		env := bentEnv(f.bend)
		open := env.Open
		env.Open = func(t testing.TB) driver.Store { return struct{ driver.Store }{open(t)} }
		for _, name := range f.laws {
			if v := byName[name].judge(t, env); v.failure == "" {
				t.Errorf("%s: the law %q holds (missing %v)", f.name, name, v.missing)
			}
		}
	}
}
