package drivertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
)

// A probe makes calls on one store for one law. Its methods fail the law if the answer is
// not the one they are named after.
type probe struct {
	t     testing.TB
	env   Env
	store driver.Store
	can   need

	key      string        // a key that nobody else uses
	ttl      time.Duration // the unit of time
	long     time.Duration // longer than any law takes
	patience time.Duration // how much longer than its TTL a claim may live
	slow     bool          // a wait or a call took so long that no claim can be trusted to live
}

// failure is what a probe panics with. It ends the law and no other.
type failure string

func newProbe(t testing.TB, env Env, s driver.Store) *probe {
	f := s.Features()
	p := &probe{t: t, env: env, store: s, key: "key-" + rand.Text(), ttl: env.unit(f)}
	p.can = abilities(t.Context(), env, s, p.key)
	p.long = 100 * p.ttl
	if f.MaxTTL > 0 {
		p.long = min(p.long, f.MaxTTL)
	}
	// A virtual store is exact but for the grain of its clock. A real one also needs time to
	// notice, and clears up in rounds.
	p.patience = p.ttl / 10
	if !env.Virtual {
		p.patience = max(p.ttl, 2*time.Second)
	}
	return p
}

// exclusive, shared and slot fill in a request for a claim by a new owner that lives longer
// than the law.

func (p *probe) exclusive() driver.Request { return p.request(driver.Whole, driver.Whole) }

func (p *probe) shared() driver.Request { return p.request(1, driver.Whole) }

func (p *probe) slot(n int64) driver.Request { return p.request(1, n) }

func (p *probe) request(weight, limit int64) driver.Request {
	return driver.Request{ID: driver.ID{Key: p.key, Owner: rand.Text()}, Weight: weight, Limit: limit, TTL: p.long}
}

// short makes the claim end within the law.
func (p *probe) short(r driver.Request) driver.Request {
	r.TTL = p.ttl
	return r
}

// placed makes the request take a place in line that lives for d.
func placed(r driver.Request, d time.Duration) driver.Request {
	r.Place = d
	return r
}

// on puts the request on another key.
func on(r driver.Request, key string) driver.Request {
	r.Key = key
	return r
}

// has reports whether the store can do all of n.
func (p *probe) has(n need) bool { return p.can&n == n }

// ask makes a request, which must be granted or refused.
func (p *probe) ask(r driver.Request) driver.Result {
	defer p.clocked()()
	res, err := p.store.Acquire(p.t.Context(), r)
	if err != nil {
		p.fail("Acquire(%s): error %q, want granted or refused", words(r), err)
	}
	switch {
	case !res.Granted && res.Fence != 0:
		p.fail("Acquire(%s): refused with the fence %d, want 0", words(r), res.Fence)
	case res.Granted && !p.has(fence) && res.Fence != 0:
		p.fail("Acquire(%s): fence %d from a store that declares none", words(r), res.Fence)
	case res.Granted && p.has(fence) && (res.Fence == 0 || res.Fence >= driver.MaxFence):
		p.fail("Acquire(%s): fence %d, want above 0 and below MaxFence", words(r), res.Fence)
	case res.Granted && (res.Ahead != 0 || res.Retry != 0 || res.Blocker.Key != ""):
		p.fail("Acquire(%s): granted with ahead %d, retry %v, blocker %+v, want none of these",
			words(r), res.Ahead, res.Retry, res.Blocker)
	}
	return res
}

func (p *probe) grant(r driver.Request) driver.Result {
	res := p.ask(r)
	if !res.Granted {
		p.fail("Acquire(%s): refused, used %d, ahead %d; want granted", words(r), res.Used, res.Ahead)
	}
	return res
}

func (p *probe) refuse(r driver.Request) driver.Result {
	res := p.ask(r)
	if res.Granted {
		p.fail("Acquire(%s): granted, used %d; want refused", words(r), res.Used)
	}
	return res
}

// invalid makes a request that breaks a rule.
func (p *probe) invalid(r driver.Request, rule string) {
	if res, err := p.store.Acquire(p.t.Context(), r); !errors.Is(err, driver.ErrInvalid) {
		p.fail("Acquire with %s: granted %v, error %v; want ErrInvalid", rule, res.Granted, err)
	}
}

// renew renews a claim, with the error want, and returns how many stand in line.
func (p *probe) renew(id driver.ID, ttl time.Duration, value []byte, want error) int {
	return p.renewal(driver.Renewal{ID: id, TTL: ttl, Value: value}, want)
}

func (p *probe) renewal(r driver.Renewal, want error) int {
	defer p.clocked()()
	behind, err := p.store.Renew(p.t.Context(), r)
	if !errors.Is(err, want) {
		p.fail("Renew(%s for %v): error %v, want %v", driver.Tag(r.Owner), r.TTL, err, want)
	}
	return behind
}

// release releases a claim or a place, with the error want.
func (p *probe) release(id driver.ID, want error) {
	defer p.clocked()()
	if err := p.store.Release(p.t.Context(), id); !errors.Is(err, want) {
		p.fail("Release(%s): error %v, want %v", driver.Tag(id.Owner), err, want)
	}
}

// passes asks for r until it is granted, which must be when something else has ended that
// began to live for life no earlier than from: not before, and soon after.
func (p *probe) passes(r driver.Request, from time.Time, life time.Duration) driver.Result {
	for {
		res := p.ask(r)
		since := time.Since(from)
		switch {
		case res.Granted && since < life:
			p.fail("Acquire(%s): granted after %v, though what is in its way lives for %v", words(r), since, life)
		case res.Granted:
			return res
		case since > life+p.patience:
			p.fail("Acquire(%s): refused after %v, though what is in its way lives for %v", words(r), since, life)
		}
		time.Sleep(p.ttl / 20)
	}
}

// show returns what stands on a key.
func (p *probe) show(key string) []driver.Claim {
	cs, err := driver.Show(p.t.Context(), p.store, key)
	if err != nil {
		p.fail("Show(%q): %v", key, err)
	}
	return cs
}

// shows wants these owners on the probe's key, in this order.
func (p *probe) shows(rs ...driver.Request) []driver.Claim {
	cs := p.show(p.key)
	var got, want []string
	for _, c := range cs {
		got = append(got, c.Owner)
	}
	for _, r := range rs {
		want = append(want, driver.Tag(r.Owner))
	}
	p.equal("the owners shown", strings.Join(got, " "), strings.Join(want, " "))
	return cs
}

// watch watches for id until the law ends.
func (p *probe) watch(id driver.ID) <-chan struct{} {
	ch := driver.Watch(p.t.Context(), p.store, id)
	if ch == nil {
		p.fail("Watch(%s): nil, want a channel", driver.Tag(id.Owner))
	}
	return ch
}

// settle lets news arrive and forgets it: a watch may be ready for no reason.
func (p *probe) settle(chans ...<-chan struct{}) {
	p.pause()
	for _, ch := range chans {
		select {
		case <-ch:
		default:
		}
	}
}

// pause lets the store finish what it does by itself.
func (p *probe) pause() {
	if p.env.Virtual {
		synctest.Wait()
	} else {
		time.Sleep(p.ttl / 4)
	}
}

// woken wants the channel to be ready soon.
func (p *probe) woken(ch <-chan struct{}, who string) {
	select {
	case _, open := <-ch:
		if !open {
			p.fail("the watch of %s was closed, want it left open", who)
		}
	case <-time.After(p.patience):
		p.fail("%s was not woken", who)
	}
}

// asleep wants the channel not to be ready.
func (p *probe) asleep(ch <-chan struct{}, who string) {
	p.pause()
	select {
	case <-ch:
		p.fail("%s was woken, want it left asleep", who)
	default:
	}
}

// wait sleeps for a multiple of the TTL.
func (p *probe) wait(ttls float64) {
	d := time.Duration(ttls * float64(p.ttl))
	began := time.Now()
	time.Sleep(d)
	p.timed(time.Since(began) - d)
}

// clocked notes how long a call takes, until the returned func is called.
func (p *probe) clocked() (stop func()) {
	began := time.Now()
	return func() { p.timed(time.Since(began)) }
}

// timed notes a delay that nobody asked for. No law relies on less than half a TTL.
func (p *probe) timed(delay time.Duration) { p.slow = p.slow || delay > p.ttl/4 }

// equal wants got to be want.
func (p *probe) equal(what string, got, want any) {
	if got != want {
		p.fail("%s: got %v, want %v", what, got, want)
	}
}

// atLeast wants got to be at least least.
func (p *probe) atLeast(what string, got, least uint64) {
	if got < least {
		p.fail("%s: got %d, want at least %d", what, got, least)
	}
}

// fail ends the law.
func (p *probe) fail(format string, args ...any) {
	panic(failure(where() + ": " + fmt.Sprintf(format, args...)))
}

// where returns the line of the law that called the probe.
func where() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "(*probe)") || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

// words tells a request in a few words.
func words(r driver.Request) string {
	s := fmt.Sprintf("%s: weight %d of %d for %v", driver.Tag(r.Owner), r.Weight, r.Limit, r.TTL)
	if r.Place > 0 {
		s += fmt.Sprintf(", a place for %v", r.Place)
	}
	return s
}

// over returns a ctx that is over.
func (p *probe) over() context.Context {
	ctx, cancel := context.WithCancel(p.t.Context())
	cancel()
	return ctx
}
