package drivertest

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/distlock/distlock/driver"
)

// In real time each random run takes seconds, nearly all of them asleep. Compare makes realRuns
// runs unless Env.Runs is set, and realTogether at a time.
const (
	realRuns     = 8
	realTogether = 4
)

// Compare makes random calls on the store and the same calls on store/mem, and fails if the answers
// differ. It logs the number of runs. The flags of pgregory.net/rapid apply: in virtual time
// -rapid.checks is the number of runs, unless [Env].Runs is set; -rapid.seed repeats a run.
//
// The calls use only declared features. Times are compared to within a quarter of [Env].TTL and
// [Env].Grain, and calls are made when no claim has ended or will end within a quarter. A store may
// grant the head of a queue before its next attempt, if Show returns the claim.
func Compare(t *testing.T, env Env) {
	t.Run("compare", func(t *testing.T) { // rapid refuses a test in which something has failed
		features := env.features(t)
		most, together := env.Runs, 1
		if !env.Virtual {
			most, together = cmp.Or(most, realRuns), realTogether
		}
		var runs, cut int
		var failed bool
		var test rapid.TB = t
		if most > 0 {
			test = compared{t}
		}
		rapid.Check(test, func(rt *rapid.T) {
			programs := rapid.SliceOfN(program(features), together, together).Draw(rt, "steps")
			if most > 0 && !failed {
				programs = programs[:min(together, max(0, most-runs))]
			}
			runs += len(programs)
			difference, late := env.compareAll(t, programs)
			if difference != "" {
				failed = true // from here on rapid looks for a shorter run, and needs a result
				rt.Fatal(difference)
			}
			cut += late
		})
		t.Logf("%d random runs were compared with store/mem, of which %d were cut short "+
			"since the machine was slow", runs, cut)
		if cut > 0 && cut == runs {
			t.Skip("no verdict, since the machine was slow: no run was complete")
		}
	})
}

// compared is a test that hides rapid's count of runs, which includes runs that were not made.
type compared struct{ *testing.T }

func (c compared) Logf(format string, args ...any) {
	c.Helper()
	if !strings.HasPrefix(format, "[rapid] OK, passed") {
		c.T.Logf(format, args...)
	}
}

// features returns the features of the store.
func (e Env) features(t *testing.T) (f driver.Features) {
	e.inTime(t, func(t testing.TB) { f = e.Open(t).Features() })
	return f
}

// owners is the number of owners on a key. They are enough for a queue, and so few that they often
// meet again.
const owners = 5

// A step is one random call. Its owner and its data are chosen when it is made, since they depend
// on the calls before.
type step struct {
	Op            op
	Key, Who      int   // small numbers
	Weight, Limit int64 // of a new request
	Life          int   // life of the claim in units, plus a half
	QueueTTL      int   // life of the entry in units, plus a half; 0: none
	Floor         int   // Spans above the last fence seen; 0: no Floor
	Value         int   // of a renewal: 0: as it was, 1: none, 2: a new one
}

type op string

const (
	acquire  op = "acquire"
	renew    op = "renew"
	renewAll op = "renew all" // of the key's owners, live or not
	record   op = "keep"
	release  op = "release"
	stale    op = "stale" // release and renew of an owner that has ended
	smash    op = "break"
	look     op = "list"
	advance  op = "advance"
)

// String returns the step for the report of a failed run.
func (s step) String() string {
	switch s.Op {
	case advance:
		return fmt.Sprintf("advance %d units", s.Life)
	case acquire:
		return fmt.Sprintf("acquire key %d, owner %d, weight %d of %d, life %d, queue TTL %d, floor %d",
			s.Key, s.Who, s.Weight, s.Limit, s.Life, s.QueueTTL, s.Floor)
	default:
		return fmt.Sprintf("%s key %d, owner %d, life %d, value %d", s.Op, s.Key, s.Who, s.Life, s.Value)
	}
}

// program draws runs of steps that use only what f declares.
func program(f driver.Features) *rapid.Generator[[]step] {
	kinds := [][2]int64{{driver.Whole, driver.Whole}, {1, driver.Whole}}
	if f.Count {
		kinds = append(kinds, [2]int64{1, 3}, [2]int64{2, 3}, [2]int64{1, 2})
	}
	ops := []op{
		acquire, acquire, acquire, acquire, acquire, release, release, renew, renewAll, stale, smash, look, advance,
	}
	if f.Keep {
		ops = append(ops, record)
	}
	one := rapid.Custom(func(t *rapid.T) step {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		s := step{
			Op:     rapid.SampledFrom(ops).Draw(t, "op"),
			Key:    rapid.IntRange(0, 1).Draw(t, "key"),
			Who:    rapid.IntRange(0, owners-1).Draw(t, "who"),
			Weight: kind[0],
			Limit:  kind[1],
			Life:   rapid.IntRange(1, 3).Draw(t, "life"),
		}
		if f.Queue {
			s.QueueTTL = rapid.IntRange(0, 3).Draw(t, "queue TTL")
		}
		if f.Floor {
			s.Floor = max(0, rapid.IntRange(-4, 3).Draw(t, "floor"))
		}
		if f.Value {
			s.Value = rapid.IntRange(0, 2).Draw(t, "value")
		}
		return s
	})
	return rapid.SliceOfN(one, 10, 60)
}

// compareAll makes several runs at a time. It returns a difference between the answers, or "", and
// the number of runs that had to end before the last step.
func (e Env) compareAll(t *testing.T, programs [][]step) (difference string, cut int) {
	if e.Virtual { // one at a time: a bubble belongs to the goroutine of the test
		for _, steps := range programs {
			d, late := e.compare(t, steps)
			difference = cmp.Or(difference, d)
			if late {
				cut++
			}
		}
		return difference, cut
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, steps := range programs {
		wg.Go(func() {
			t.Run("run", func(t *testing.T) { // the store is closed with it
				d, late := e.compare(t, steps)
				mu.Lock()
				defer mu.Unlock()
				difference = cmp.Or(difference, d)
				if late {
					cut++
				}
			})
		})
	}
	wg.Wait()
	if t.Failed() { // a store could not be opened
		t.FailNow()
	}
	return difference, cut
}

// compare makes the steps on a new store and on a new model. It returns a difference between the
// answers with the steps so far, or "", and whether the run had to end before the last step.
func (e Env) compare(t *testing.T, steps []step) (difference string, late bool) {
	e.inTime(t, func(t testing.TB) {
		c := newComparison(t, e)
		var log []string
		defer func() {
			switch r := recover().(type) {
			case nil:
			case slow:
				late = true
				t.Logf("a run ended after %d of %d calls, since the machine was slow", len(log), len(steps))
			case failure:
				difference = fmt.Sprintf("the store differs from store/mem: %s\n\t%s", r, strings.Join(log, "\n\t"))
			default:
				panic(r)
			}
		}()
		for _, s := range steps {
			log = append(log, s.String())
			c.do(s)
		}
	})
	return difference, late
}

// A run panics with slow if calls took so long that it is not certain which claims were live. Then
// the last answer is not compared.
type slow struct{}

// period waits until no claim has ended or will end for a while: all lives are a number of units
// and a half, so calls are made at the beginning of a unit.
func (c *comparison) period() {
	for {
		c.step = time.Now()
		phase := c.step.Sub(c.began) % c.unit
		if phase <= c.unit/8 {
			return
		}
		time.Sleep(c.unit - phase) // it may take longer
	}
}

// inTime reports whether the step is still so near to the beginning of a unit that no claim has
// ended. In virtual time only the store itself can be slow, and that is a failure.
func (c *comparison) inTime() bool { return c.can&virtual != 0 || time.Since(c.step) <= c.unit/4 }

// life returns n units and a half.
func (c *comparison) life(n int) time.Duration { return c.unit*time.Duration(n) + c.unit/2 }

// ttl returns the life of a claim: longer than any run if the store does not end claims.
func (c *comparison) ttl(n int) time.Duration {
	if c.can&expiry != 0 {
		return c.life(n)
	}
	longest := c.store.Features().MaxTTL
	if longest == 0 {
		longest = 1000 * time.Hour
	}
	return longest
}
