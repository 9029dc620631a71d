package keeper

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

var seeds = flag.Int("seeds", 300, "how many runs TestKeeper_random makes")

// TestKeeper_random runs holds against a store that answers at random. An oracle that sees only the
// requests and the answers knows at every instant which holds may be trusted.
func TestKeeper_random(t *testing.T) {
	sum := map[string]int{}
	for seed := range uint64(*seeds) {
		synctest.Test(t, func(t *testing.T) { newRun(t, seed, sum).play() })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(sum)
	for _, what := range []string{
		"fine", "slow", "down", "lost reply", "not held", "silent", "hung", // answers of the store
		"expired", "reached its bound", "taken away", "stopped", "extended", "held to the end", // ends of holds
	} {
		if sum[what] == 0 && *seeds >= 100 {
			t.Errorf("no run came to %q", what)
		}
	}
}

// An oracle knows the expected state of one claim.
type oracle struct {
	h        *Hold
	w        *recorder
	until    time.Duration // when trust ends by the requests and answers so far
	cut      time.Duration // when MaxHold ends the hold
	gone     time.Duration // when the store answered "not held"
	stopped  time.Duration // when Stop was called
	inFlight bool          // a renewal is under way
}

// loss returns when and why the hold is lost, if nothing else happens.
func (o *oracle) loss() (time.Duration, error) {
	switch {
	case o.gone < min(o.until, o.cut):
		return o.gone, driver.ErrNotHeld
	case o.cut < o.until:
		return o.cut, ErrMaxHold
	default:
		return o.until, ErrExpired
	}
}

// trusted reports whether the hold must be trusted at now. If not, it must not be trusted.
func (o *oracle) trusted(now time.Duration) bool {
	lost, _ := o.loss()
	return now < lost && now < o.stopped
}

// A run is one seed.
type run struct {
	*testing.T
	*Keeper
	end  chan struct{} // closed when the run ends
	mood int           // how good the store is: of so many calls, 13 go wrong

	lock   sync.Mutex
	rnd    *rand.Rand
	claims map[string]*oracle
	sum    map[string]int
}

func newRun(t *testing.T, seed uint64, sum map[string]int) *run {
	r := &run{T: t, end: make(chan struct{}), rnd: rand.New(rand.NewPCG(seed, 0)), claims: map[string]*oracle{}, sum: sum}
	r.mood = []int{20, 60, 200}[r.n(3)]
	r.Keeper = New(NewClock(), r.renewAll)
	return r
}

func (r *run) play() {
	var wg sync.WaitGroup
	for i := range 1 + r.n(12) {
		wg.Go(func() { r.live(fmt.Sprint(i)) })
	}
	const long = 3 * time.Minute
	for r.clock.Now() < long {
		time.Sleep(r.d(time.Second))
		synctest.Wait()
		r.check()
	}
	close(r.end)
	wg.Wait()
	synctest.Wait()
	r.check()
	r.Close()
	r.verify()
}

// n is a random number below most.
func (r *run) n(most int) int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.rnd.IntN(most)
}

// d is a random duration up to most, so fine that no two events share an instant by chance.
func (r *run) d(most time.Duration) time.Duration { return time.Duration(1 + r.n(int(most))) }

// pause sleeps for d, or to the end of the run; it reports whether there is more to do.
func (r *run) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-r.end:
		return false
	}
}

// live runs one hold and its users.
func (r *run) live(key string) {
	if !r.pause(r.d(5 * time.Second)) {
		return
	}
	terms := Terms{TTL: time.Second + r.d(30*time.Second), Fixed: r.n(10) == 0}
	if r.n(5) == 0 {
		terms.MaxHold = r.d(time.Minute)
	}
	sent := r.clock.Now()
	time.Sleep(r.d(terms.TTL / 2)) // the answer to the request takes its time
	o := &oracle{
		w: &recorder{clock: r.clock}, until: sent + terms.TTL - Margin(terms.TTL), cut: never, gone: never, stopped: never,
	}
	if terms.MaxHold > 0 {
		o.cut = r.clock.Now() + terms.MaxHold
	}
	r.lock.Lock()
	r.claims[key] = o
	r.lock.Unlock()
	o.h = r.Keep(id(key), terms, sent, o.w)
	for r.pause(r.d(20 * time.Second)) {
		switch r.n(12) {
		case 0:
			r.stop(o)
		case 1, 2, 3:
			r.extend(o)
		}
	}
}

func (r *run) stop(o *oracle) {
	r.lock.Lock()
	now := r.clock.Now()
	held := o.trusted(now)
	if held {
		o.stopped = now
		r.sum["stopped"]++
	}
	r.lock.Unlock()
	err := o.h.Stop(context.Background())
	if held != (err == nil) {
		r.Errorf("%v: Stop = %v, held: %t", r.clock.Now(), err, held)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if o.inFlight {
		r.Errorf("%v: a renewal is under way after Stop", r.clock.Now())
	}
}

func (r *run) extend(o *oracle) {
	ctx, cancel := context.WithTimeout(context.Background(), r.d(10*time.Second))
	defer cancel()
	err := o.h.Extend(ctx, time.Second+r.d(40*time.Second))
	r.lock.Lock()
	defer r.lock.Unlock()
	if err == nil {
		r.sum["extended"]++
		if !o.trusted(r.clock.Now()) {
			r.Errorf("%v: extended after its end", r.clock.Now())
		}
	}
}

// serve answers a batch, all of it alike.
func (r *run) renewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	sent := r.clock.Now()
	r.lock.Lock()
	for _, a := range rs {
		o := r.claims[a.Key]
		if o.inFlight {
			r.Errorf("%v: a second renewal of %s is under way", sent, a.Key)
		}
		if !o.trusted(sent) {
			r.Errorf("%v: %s is renewed after its end", sent, a.Key)
		}
		o.inFlight = true
		// The store may apply a shorter TTL and never answer. An equal one changes nothing.
		o.until = min(o.until, sent+a.TTL-Margin(a.TTL))
	}
	r.lock.Unlock()
	what, err := r.outcome(ctx, rs[0].TTL)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.sum[what]++
	now := r.clock.Now()
	out := make([]driver.Renewed, len(rs))
	for i, a := range rs {
		o := r.claims[a.Key]
		o.inFlight = false
		out[i].Err = err
		switch {
		case !o.trusted(now): // a hold that has ended stays ended
		case err == nil:
			o.until = max(o.until, sent+a.TTL-Margin(a.TTL))
		case errors.Is(err, driver.ErrNotHeld):
			o.gone = now
		}
	}
	return out
}

// outcome chooses the answer to a call, and how long the answer takes.
func (r *run) outcome(ctx context.Context, ttl time.Duration) (string, error) {
	switch r.n(r.mood) {
	case 0:
		return "not held", driver.ErrNotHeld
	case 1, 2, 3, 4:
		return "down", errDown
	case 5, 6:
		return "silent", silent(ctx, 0)
	case 7: // it ignores its limit, and reports success in the end
		r.pause(r.d(2 * ttl))
		return "hung", nil
	case 8, 9:
		_ = slow(r.d(ttl/4), nil)(ctx, 0)
		return "lost reply", errDown
	case 10, 11, 12:
		return "slow", slow(r.d(ttl/3), nil)(ctx, 0)
	default:
		return "fine", nil
	}
}

// check compares the holds that are trusted now with those that the oracle trusts.
func (r *run) check() {
	r.lock.Lock()
	defer r.lock.Unlock()
	now := r.clock.Now()
	for key, o := range r.claims {
		if got, want := o.h.Trusted(0), o.trusted(now); got != want {
			lost, why := o.loss()
			r.Errorf("%v: %s is trusted: %t, want %t; by the oracle it is lost at %v: %v", now, key, got, want, lost, why)
		}
	}
}

// verify checks the calls of the listeners after the run.
func (r *run) verify() {
	now := r.clock.Now()
	for key, o := range r.claims {
		lost, why := o.loss()
		all := o.w.all()
		risk := false
		for i, n := range all {
			if n.lost != nil {
				if i != len(all)-1 || n.at != lost || !errors.Is(n.lost, why) {
					r.Errorf("%s: listener got %v, lost at %v by %v, want %v by %v", key, o.w.summary(), n.at, n.lost, lost, why)
				}
				continue
			}
			if n.r.Risk != risk || n.at > o.stopped {
				r.Errorf("%s: listener got %+v at %v, stopped at %v", key, n.r, n.at, o.stopped)
			}
			risk = n.r.Err != nil
		}
		reported := len(all) > 0 && all[len(all)-1].lost != nil
		if want := lost <= now && lost < o.stopped; reported != want {
			r.Errorf("%s: listener got %v, lost at %v by %v, stopped at %v", key, o.w.summary(), lost, why, o.stopped)
		}
		switch {
		case !reported && o.stopped == never:
			r.sum["held to the end"]++
		case reported && errors.Is(why, ErrExpired):
			r.sum["expired"]++
		case reported && errors.Is(why, ErrMaxHold):
			r.sum["reached its bound"]++
		case reported:
			r.sum["taken away"]++
		}
	}
}
