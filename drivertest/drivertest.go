package drivertest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// An Env describes the store under test.
type Env struct {
	// Open returns a store with no claims, or with a fresh namespace of a real server, and closes
	// it through t.Cleanup. In real time several rules call it concurrently.
	Open func(t testing.TB) driver.Store

	// Virtual runs every rule in a testing/synctest bubble of its own.
	Virtual bool

	// TTL is the unit of time of the rules. 0 means 600 ms in real time and 10 s in virtual time.
	// It is raised to Features.MinTTL. A store whose claims outlive their TTL by more than a
	// quarter of it needs a longer one.
	TTL time.Duration

	// Grain is the largest error of the durations that the store reports, such as a second if the
	// store counts whole seconds. 0 means that their error is small compared with the TTL.
	Grain time.Duration

	// Restart returns a store with the same claims, after a restart of the store or of its client.
	// The store s is not used again. If nil, the rule is skipped.
	Restart func(t testing.TB, s driver.Store) driver.Store

	// Second returns another store over the claims of s, a store that Open returned, and closes it
	// through t.Cleanup. If nil, Through is used, with the address Server. If that is nil too, the
	// rule is skipped.
	Second func(t testing.TB, s driver.Store) driver.Store

	// Leftovers counts the things (keys, rows, ...) that the store keeps. It is called when there
	// are no claims, after some calls on another key, during which a store may clean up. In
	// virtual time the ten minutes for which a store may remember a fence have passed. In real
	// time the count must exclude remembered fences. If nil, only driver.List is used.
	Leftovers func(t testing.TB, s driver.Store) int

	// Raise sets the last fence of a key that has no claims, as if that fence had been granted. If
	// nil, the rule about the last fences runs in virtual time only.
	Raise func(t testing.TB, s driver.Store, key string, fence uint64)

	// Server is the TCP address of the store's server, for Faults.
	Server string

	// Through returns another store over the claims of s, a store that Open returned. Its
	// connections go to addr instead of Server, where Faults has a proxy. Through closes it with
	// t.Cleanup.
	Through func(t testing.TB, s driver.Store, addr string) driver.Store

	// Ping makes one round trip to the server that changes nothing, as a reference for Bench. It
	// may be nil.
	Ping func(ctx context.Context) error

	// Many is the number of keys, claims and queue entries that the rules about size use. 0 means
	// 1,000, but 200 claims and entries on one key in real time. A store that is tested in many
	// configurations needs the full number in one of them only. Below 100, rules that find a
	// mistake by chance make fewer rounds too.
	Many int

	// Runs is the number of random runs of Compare. 0 means 8 in real time, where each takes
	// seconds, and the flag -rapid.checks in virtual time.
	Runs int
}

// Run checks every rule on the store, each as a subtest.
func Run(t *testing.T, env Env) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			if !env.Virtual {
				t.Parallel()
			}
			v := r.run(t, env)
			for try := 1; v.late != "" && v.failure == "" && try < 5; try++ {
				t.Logf("once more, since the machine was slow: %s", v.late)
				v = r.run(t, env)
			}
			switch {
			case v.missing != 0:
				t.Skipf("skipped: needs %v", v.missing)
			case v.failure != "":
				t.Fatal(v.failure)
			case v.late != "":
				t.Skipf("no verdict, since the machine was slow: %s", v.late)
			}
		})
	}
}

// A rule is one sentence of the contract and its check.
type rule struct {
	name     string // a few words
	sentence string
	needs    need
	check    func(p *probe)
}

// A verdict is the result of a rule on a store. The zero verdict means that the rule holds.
type verdict struct {
	missing need   // features that the rule needs and the store lacks: the rule was skipped
	failure string // the rule, and how it was broken
	late    string // the machine was too slow for a verdict
}

// run checks the rule in the time of env.
func (r rule) run(t *testing.T, env Env) (v verdict) {
	env.inTime(t, func(t testing.TB) { v = r.try(t, env) })
	return v
}

func (r rule) try(t testing.TB, env Env) (v verdict) {
	if env.Virtual && r.needs&eve != 0 {
		// Before the store is opened, so that the store does not count the centuries.
		time.Sleep(time.Until(eveOfFences()))
	}
	p := newProbe(t, env, env.Open(t))
	if v.missing = r.needs &^ p.can; v.missing != 0 {
		return v
	}
	defer func() {
		switch end := recover().(type) {
		case nil:
		case failure:
			v.failure = fmt.Sprintf("%s: %s\n%s", r.name, r.sentence, end)
		case late:
			v.late = string(end)
		default:
			panic(end)
		}
	}()
	r.check(p)
	return v
}

// hasSecond reports whether second works.
func (e Env) hasSecond() bool { return e.Second != nil || e.Through != nil && e.Server != "" }

// second returns another store over the claims of s.
func (e Env) second(t testing.TB, s driver.Store) driver.Store {
	if e.Second != nil {
		return e.Second(t, s)
	}
	return e.Through(t, s, e.Server)
}

// inTime runs f in the time of env: in a bubble if it is virtual.
func (e Env) inTime(t *testing.T, f func(t testing.TB)) {
	t.Helper()
	if e.Virtual {
		synctest.Test(t, func(t *testing.T) { f(t) })
	} else {
		f(t)
	}
}

// unit returns the unit of time of the rules.
func (e Env) unit(f driver.Features) time.Duration {
	ttl := e.TTL
	switch {
	case ttl > 0:
	case e.Virtual:
		ttl = 10 * time.Second
	default:
		ttl = 600 * time.Millisecond
	}
	return max(ttl, f.MinTTL)
}
