package drivertest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// An Env says how to reach the store under test.
type Env struct {
	// Open returns a store with no claims, or a fresh namespace of a real server, and
	// closes it through t.Cleanup. In real time it is called by several laws at a time.
	Open func(t testing.TB) driver.Store

	// Virtual runs every law in a testing/synctest bubble of its own.
	Virtual bool

	// TTL is the unit of time of the laws. 0 means 600 ms in real time and 10 s in
	// virtual time. It is raised to Features.MinTTL. A store whose claims outlive their TTL by
	// more than a quarter of it needs a longer one.
	TTL time.Duration

	// Restart returns the same claims after a restart of the store or of its client. The
	// store it is given is not used again. If nil, the law is not asked.
	Restart func(t testing.TB, s driver.Store) driver.Store

	// Leftovers counts the things (keys, rows, ...) that the store keeps. It is asked when
	// nothing is claimed, after some calls on another key, in which a store may clear up.
	// In virtual time more than the ten minutes have passed for which a store may remember
	// a fence; in real time it leaves out what the store may remember that long. If
	// nil, only driver.List is asked.
	Leftovers func(t testing.TB, s driver.Store) int

	// Server is the TCP address of the store's server, for Faults.
	Server string

	// Through returns another store over the claims of s, a store that Open returned, whose
	// connections go to addr in place of Server, and closes it through t.Cleanup. Faults puts a proxy
	// there.
	Through func(t testing.TB, s driver.Store, addr string) driver.Store

	// Ping makes one round trip to the server that changes nothing, for Bench to compare with. It may
	// be nil.
	Ping func(ctx context.Context) error

	// Many is how many keys, claims and queue entries the rules about size use. 0 means 1,000, but
	// 200 claims and entries on
	// one key in real time. A store that is tested in many ways needs it in one of them only: below
	// 100, rules that meet
	// a mistake by chance make fewer rounds too.
	Many int

	// Runs is how many random runs Compare makes. 0 means 8 in real time, where each takes seconds,
	// and as many as
	// -rapid.checks says in virtual time.
	Runs int
}

// Run tests every law on the store, each as a subtest.
func Run(t *testing.T, env Env) {
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			if !env.Virtual {
				t.Parallel()
			}
			v := l.judge(t, env)
			switch {
			case v.missing != 0:
				t.Skipf("not asked: needs %v", v.missing)
			case v.failure != "":
				t.Fatal(v.failure)
			case v.late != "":
				t.Skipf("not judged, since the machine was slow: %s", v.late)
			}
		})
	}
}

// A law is one sentence of the contract and how it is checked.
type law struct {
	name     string // one word, or two
	sentence string
	needs    need
	check    func(p *probe)
}

// A verdict is what became of a law on a store. The zero verdict is: it holds.
type verdict struct {
	missing need   // what the law needs and the store lacks: it was not asked
	failure string // the law, and how it was broken
	late    string // the machine was too slow for a verdict
}

// judge asks for the law.
func (l law) judge(t *testing.T, env Env) (v verdict) {
	env.inTime(t, func(t testing.TB) { v = l.try(t, env) })
	return v
}

func (l law) try(t testing.TB, env Env) (v verdict) {
	if env.Virtual && l.needs&eve != 0 {
		// Before the store is open, so that nothing in it counts the centuries.
		time.Sleep(time.Until(eveOfFences()))
	}
	p := newProbe(t, env, env.Open(t))
	if v.missing = l.needs &^ p.can; v.missing != 0 {
		return v
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			v.failure = fmt.Sprintf("%s: %s\n%s", l.name, l.sentence, r)
		case late:
			v.late = string(r)
		default:
			panic(r)
		}
	}()
	l.check(p)
	return v
}

// inTime runs f in the time of env.
func (e Env) inTime(t *testing.T, f func(t testing.TB)) {
	t.Helper()
	if e.Virtual {
		synctest.Test(t, func(t *testing.T) { f(t) })
	} else {
		f(t)
	}
}

// unit is the TTL that the laws count in.
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
