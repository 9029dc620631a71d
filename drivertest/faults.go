package drivertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/proxy"
)

// Faults tests the outcomes that a store reports while the connection to its server breaks. It
// needs [Env].Server and [Env].Through, and runs in real time. Each breakage is a subtest, and is
// applied to each verb:
//
//   - a definite answer is true: done, refused, and unavailable, which means that nothing was
//     changed;
//   - a late reply is not used as the reply to another call;
//   - the same call, repeated, gets a definite answer, and there is one claim or queue entry;
//   - Release leaves nothing behind;
//   - a call returns soon after its ctx ends;
//   - a watch whose connection was lost is ready.
//
// A store whose claims end with its connection (it does not declare Detached) is not tested.
func Faults(t *testing.T, env Env) {
	if env.Server == "" || env.Through == nil || env.Virtual {
		t.Fatal("Faults needs Env.Server and Env.Through, in real time")
	}
	direct := newProbe(t, env, env.Open(t))
	if !direct.has(detached) {
		t.Skip("skipped: needs detached")
	}
	t.Run("faults", func(t *testing.T) { // the store is closed after the last of them
		for _, b := range breakages() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				if failure := b.try(t, env, direct.store); failure != "" {
					t.Fatal(failure)
				}
			})
		}
	})
}

// A breakage is one way in which a connection breaks during a call.
type breakage struct {
	name   string
	times  int  // how often it is applied to each verb
	silent bool // the call ends with its ctx
	begin  func(p *proxy.Proxy, i int, took time.Duration)
}

func breakages() []breakage {
	return []breakage{
		{"the reply is lost", 3, false, func(p *proxy.Proxy, _ int, _ time.Duration) { p.CutAfter(0) }},
		{"the reply is cut", 8, false, func(p *proxy.Proxy, i int, _ time.Duration) { p.CutAfter(1 + 3*i) }},
		{"the connection is reset", 8, false, func(p *proxy.Proxy, i int, took time.Duration) {
			time.AfterFunc(took*time.Duration(i)/6, p.Reset)
		}},
		{"replies are swallowed", 2, true, func(p *proxy.Proxy, _ int, _ time.Duration) { p.Cut(proxy.ToClient) }},
		{"requests are swallowed", 2, true, func(p *proxy.Proxy, _ int, _ time.Duration) { p.Cut(proxy.ToServer) }},
		{"replies are late", 3, true, func(p *proxy.Proxy, _ int, _ time.Duration) { p.Hold(proxy.ToClient) }},
		{"there is no server", 2, true, func(p *proxy.Proxy, _ int, _ time.Duration) { p.Refuse() }},
		{"the link is slow", 2, false, func(p *proxy.Proxy, _ int, _ time.Duration) { p.Latency(10 * time.Millisecond) }},
	}
}

// A faulty makes calls on a store behind a proxy, and checks their effect without the proxy.
type faulty struct {
	*probe              // reaches the server directly
	store  driver.Store // through the proxy
	proxy  *proxy.Proxy
	limit  time.Duration // for a call that gets no answer
	heals  time.Duration // for the store to work again
	took   time.Duration
}

// try makes all calls under a breakage. It returns a mistake, or "".
func (b breakage) try(t *testing.T, env Env, direct driver.Store) (wrong string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{probe: newProbe(t, env, direct), proxy: proxy.New(l, env.Server)}
	t.Cleanup(f.proxy.Close) // after the store
	f.store = env.Through(t, direct, f.proxy.Addr)
	f.limit, f.heals = f.ttl/4, 50*f.ttl
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			wrong = fmt.Sprintf("%s: %s", b.name, r)
		case late:
			t.Skipf("no verdict, since the machine was slow: %s", r)
		default:
			panic(r)
		}
	}()
	for _, v := range faultVerbs() {
		if v.needs&^f.can != 0 {
			continue
		}
		for i := range b.times {
			f.meet(b, v, i)
		}
	}
	if f.has(watch) {
		f.watches(b)
	}
	return ""
}

// meet makes one call while the connection breaks, and compares the reported outcome with the
// claims on the server.
func (f *faulty) meet(b breakage, v faultVerb, i int) {
	f.key = fmt.Sprintf("%s/%s/%s/%d", f.probe.key[:12], b.name, v.name, i)
	f.until = time.Now().Add(f.long)
	f.warm()
	held := on(f.exclusive(), f.key+"/held")
	f.grant(held)
	r := v.prepare(f.probe)
	limit := f.limit
	if !b.silent {
		limit = f.heals
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	b.begin(f.proxy, i, f.took)
	answer := make(chan error, 1)
	go func() { answer <- v.call(ctx, f.store, r) }()
	var err error
	select {
	case err = <-answer:
	case <-time.After(limit + f.heals):
		f.proxy.Close() // which may end the call
		f.wrong("%s did not return for %v after its ctx had ended", v.name, f.heals)
	}
	f.proxy.Heal()
	f.others(v, held)
	if err == nil || definite(err) {
		if err != nil {
			f.pause() // a change may become visible a little later
		}
		if what := v.differs(f.probe, r, err); what != "" {
			f.fail("%s returned the error %v, but %s", v.name, err, what)
		}
	}
	if i%2 == 0 {
		f.again(v, r)
	}
	f.undone(v, r)
	f.release(held.ID, nil)
}

// warm makes calls until the store has a connection, and measures the last of them.
func (f *faulty) warm() {
	r := on(f.exclusive(), f.key+"/warm")
	f.soon("the store does not work", func(ctx context.Context) error {
		began := time.Now()
		_, err := f.store.Acquire(ctx, r)
		f.took = time.Since(began)
		return errors.Join(err, f.store.Release(ctx, r.ID))
	})
}

// others makes calls with known answers after the connection broke: the reply to another call would
// be wrong.
func (f *faulty) others(v faultVerb, held driver.Request) {
	ctx, cancel := context.WithTimeout(f.t.Context(), f.heals)
	defer cancel()
	if res, err := f.store.Acquire(ctx, on(f.exclusive(), held.Key)); err == nil && res.Granted {
		f.fail("the next call after %s was granted a key that is held", v.name)
	}
	if _, err := f.store.Renew(ctx, driver.Renewal{ID: on(f.exclusive(), held.Key).ID, TTL: f.long}); err == nil {
		f.fail("a call after %s renewed a claim that was never granted", v.name)
	}
}

// again repeats the call until it has a definite answer. Then the effect must be visible.
func (f *faulty) again(v faultVerb, r driver.Request) {
	f.soon(v.name+" made again fails", func(ctx context.Context) error {
		err := v.call(ctx, f.store, r)
		if v.ends && errors.Is(err, driver.ErrNotHeld) {
			return nil // the first call did it
		}
		return err
	})
	if what := v.differs(f.probe, r, nil); what != "" {
		f.fail("%s was made again, but %s", v.name, what)
	}
}

// undone fails unless Release leaves nothing of r.
func (f *faulty) undone(v faultVerb, r driver.Request) {
	f.soon("something is left after "+v.name+" and Release", func(ctx context.Context) error {
		if err := f.store.Release(ctx, r.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
			return err
		}
		if _, there := f.stands(r); there {
			return errors.New("it is there")
		}
		return nil
	})
}

// soon repeats a call until it succeeds.
func (f *faulty) soon(what string, call func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), f.heals)
	defer cancel()
	for {
		err := call(ctx)
		if err == nil {
			f.last = span{time.Now(), time.Now()}
			return
		}
		if ctx.Err() != nil {
			f.wrong("%s, for %v: %v", what, f.heals, err)
		}
		time.Sleep(f.ttl / 100)
	}
}

// watches fails unless a watch is ready after its connection was lost, or when the key is free.
func (f *faulty) watches(b breakage) {
	f.warm()
	a, w := on(f.exclusive(), f.key+"/watched"), on(f.exclusive(), f.key+"/watched")
	f.grant(a)
	ch := driver.Watch(f.t.Context(), f.store, w.ID)
	if ch == nil {
		return // the store cannot watch at the moment
	}
	f.settle(ch)
	if b.silent {
		b.begin(f.proxy, 0, f.took)
		f.pause()
		f.proxy.Heal()
	}
	f.proxy.Reset()
	f.release(a.ID, nil)
	select {
	case <-ch:
	case <-time.After(f.heals):
		f.wrong("a watch whose connection was lost was not ready for %v after the key was free", f.heals)
	}
}

// stands returns the claim or entry of r, without the proxy.
func (p *probe) stands(r driver.Request) (driver.Claim, bool) {
	if p.has(show) {
		for _, c := range p.show(r.Key) {
			if c.Owner == driver.Tag(r.Owner) {
				return c, true
			}
		}
		return driver.Claim{}, false
	}
	look := on(p.exclusive(), r.Key)
	res := p.attempt(look)
	if res.Granted {
		p.release(look.ID, nil)
	}
	return res.Blocker, res.Blocker.Owner == driver.Tag(r.Owner)
}
