package drivertest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

// endRules state what holds when a call coincides with the end of a claim, or of its own ctx.
func endRules() []rule {
	return []rule{
		{
			name: "renewed at the end",
			sentence: "a renewal at the end of its claim is ErrNotHeld, or excludes others " +
				"until the new end",
			needs: expiry,
			check: func(p *probe) {
				const workers = 8
				life := max(p.brief()/20, p.store.Features().MinTTL)
				if !p.has(virtual) {
					life = max(life/3, p.store.Features().MinTTL)
				}
				rounds := p.often(8, life)
				p.together(workers, func(w int) (wrong string) {
					share := float64(w) / workers
					for i := range rounds {
						var held bool
						if held, wrong = p.renewAtEnd(fmt.Sprintf("%s-%d-%d", p.key, w, i), life, share); wrong != "" {
							break
						}
						// Closer to the moment from which on renewals are refused.
						step := max(0.5/float64(i+1), 0.05)
						if !held {
							step = -step
						}
						share = min(max(share+step, 0), 1)
					}
					return wrong
				})
			},
		},
		{
			name: "cut off",
			sentence: "a call whose ctx ends during the call reports the true or an unknown " +
				"outcome, and can be repeated, or undone by Release",
			check: func(p *probe) {
				n, took := p.rounds(12), p.roundTrip()
				p.until = time.Now().Add(p.long / 3)
				var cuts []cutCall
				for i := range n {
					share := 1.5 * float64(i) / float64(n)
					cuts = append(cuts, p.cutAcquire(i, share, took), p.cutRelease(i, share, took))
					if p.has(expiry) {
						cuts = append(cuts, p.cutRenew(i, share, took))
					}
				}
				p.pause() // a call may take effect a little later
				for i, c := range cuts {
					p.verify(c)
					if c.verb == "Acquire" && i%2 == 0 {
						p.grant(c.r)
					}
					p.key = c.r.Key
					p.clear(c.r)
				}
			},
		},
		{
			name:     "break and acquire",
			sentence: "Break returns every claim that it ended, also with concurrent calls",
			needs:    breaks,
			check: func(p *probe) {
				const workers = 4
				each := p.often(20, 5*time.Millisecond)
				rs := make([]driver.Renewal, workers*each)
				for i := range rs {
					rs[i] = driver.Renewal{ID: p.shared().ID, TTL: p.long}
				}
				broken, granted := map[string]bool{}, make([]bool, len(rs))
				var running atomic.Int64
				running.Store(workers)
				p.together(1+workers, func(w int) (wrong string) {
					if w < workers {
						defer running.Add(-1)
						for i := w * each; i < (w+1)*each; i++ {
							r := p.shared()
							r.ID = rs[i].ID
							res, err := p.store.Acquire(p.t.Context(), r)
							granted[i] = err == nil && res.Granted
							time.Sleep(p.brief() / 2000)
						}
						return ""
					}
					for running.Load() > 0 {
						cs, err := driver.Break(p.t.Context(), p.store, p.key, 0, reason)
						if err != nil && !errors.Is(err, driver.ErrUnavailable) { // then nothing was changed
							return fmt.Sprintf("Break: %v", err)
						}
						for _, c := range cs {
							broken[c.Owner] = true
						}
						time.Sleep(p.brief() / 1000)
					}
					return ""
				})
				for i, got := range p.renewAll(rs) {
					if granted[i] && errors.Is(got.Err, driver.ErrNotHeld) && !broken[driver.Tag(rs[i].Owner)] {
						p.fail("a claim was granted and has ended, and no Break returned it")
					}
				}
			},
		},
		{
			name:     "break and grant",
			sentence: "a claim granted meanwhile, with a higher fence, is never ended by Break",
			needs:    breaks | fence,
			check: func(p *probe) {
				for i := range p.often(20, p.brief()/20) {
					a, b := p.exclusive(), p.exclusive()
					p.breakAndGrant(a, b, p.grant(a).Fence, p.brief()/2000*time.Duration(i%4))
					p.renew(b.ID, p.long, nil, nil)
					p.release(b.ID, nil)
				}
			},
		},
		{
			name:     "swept",
			sentence: "a store that cleans up ends no claim before its TTL has passed",
			needs:    expiry,
			check: func(p *probe) {
				const workers, holders = 1, 16
				lives := p.rounds(8)
				if p.has(virtual) {
					lives = p.rounds(32) // an early sweep meets few claims, and this time costs nothing
				}
				until := time.Now().Add(p.brief() / 4 * time.Duration(lives))
				p.together(workers+holders, func(i int) string {
					if i < workers {
						p.traffic(fmt.Sprint(p.key, "-traffic-", i), until)
						return ""
					}
					return p.hold(fmt.Sprint(p.key, "-", i), i-workers, until)
				})
			},
		},
	}
}

// breakAndGrant breaks the claims on the key up to a fence. After a while the owner of that fence
// releases its claim, and another owner acquires the key.
func (p *probe) breakAndGrant(a, b driver.Request, upTo uint64, after time.Duration) {
	ctx := p.t.Context()
	var granted atomic.Bool
	by := time.Now().Add(5 * p.patience)
	p.together(2, func(w int) (wrong string) {
		if w == 0 {
			for done := false; !done; time.Sleep(p.brief() / 1000) {
				done = granted.Load() // Break once more after the grant
				cs, err := driver.Break(ctx, p.store, p.key, upTo, reason)
				if errors.Is(err, driver.ErrUnavailable) && time.Now().Before(by) {
					done = false // nothing was changed
					continue
				}
				if err != nil {
					return fmt.Sprintf("Break: %v", err)
				}
				for _, c := range cs {
					if c.Owner == driver.Tag(b.Owner) {
						return fmt.Sprintf("Break up to %d ended a claim with the fence %d", upTo, c.Fence)
					}
				}
			}
			return ""
		}
		defer granted.Store(true)
		time.Sleep(after)
		for ; time.Now().Before(by); time.Sleep(p.brief() / 1000) {
			_ = p.store.Release(ctx, a.ID) // Break may have ended the claim
			if res, err := p.store.Acquire(ctx, b); err == nil && res.Granted {
				return ""
			}
		}
		return "the key is not free after Release"
	})
}

// brief returns the unit of time of the rules in which many claims end. These rules accept a store
// that is too slow for it.
func (p *probe) brief() time.Duration {
	if p.env.Virtual {
		return p.ttl
	}
	return min(p.ttl, 600*time.Millisecond)
}

// renewAtEnd renews a claim close to the moment at which it ends, while another owner attempts to
// acquire the key. The renewal is sent after a share, 0 to 1, of the time in question. It reports
// whether the claim was renewed.
func (p *probe) renewAtEnd(key string, life time.Duration, share float64) (held bool, wrong string) {
	a, b := on(p.exclusive(), key), on(p.exclusive(), key)
	a.TTL = life
	began := time.Now()
	res, err := p.store.Acquire(p.t.Context(), a)
	switch {
	case err != nil:
		return false, "" // a busy store may return an error
	case !res.Granted:
		return false, "a key that nobody else uses was refused"
	}
	// The store serves a call at some moment between its sending and its answer. So the claim ends
	// between end and end+spread, and a renewal that is served then was sent a little before.
	spread := max(time.Since(began), life/100)
	end := began.Add(life)
	renewed := make(chan error, 1)
	go func() {
		time.Sleep(time.Until(end.Add(time.Duration((1.5*share - 1) * float64(spread)))))
		_, err := p.store.Renew(p.t.Context(), driver.Renewal{ID: a.ID, TTL: p.long})
		renewed <- err
	}()
	time.Sleep(time.Until(end.Add(-spread)))
	granted, err := p.attemptUntil(b, renewed)
	if err == nil && granted && time.Since(began) < p.long {
		return true, "the claim was renewed, and another owner was granted the key before the new end"
	}
	return err == nil, ""
}

// attemptUntil attempts to acquire a key until the renewal of the claim on it has returned, and
// once more after that. It returns the error of the renewal, or its own.
func (p *probe) attemptUntil(b driver.Request, renewed <-chan error) (granted bool, err error) {
	for answered := false; ; {
		res, acquireErr := p.store.Acquire(p.t.Context(), b)
		if !answered && acquireErr == nil && !res.Granted {
			select {
			case err = <-renewed:
				answered = true
			case <-time.After(b.TTL / 1e6): // in virtual time only this lets time pass
			}
			continue
		}
		if !answered {
			err = <-renewed
		}
		if acquireErr != nil {
			return false, acquireErr
		}
		return res.Granted, err
	}
}

// A cutCall is a call that was cut off, and the error that it returned.
type cutCall struct {
	verb string
	r    driver.Request
	err  error
}

// definite reports whether an error means that the call changed nothing.
func definite(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) ||
		errors.Is(err, driver.ErrNotHeld)
}

// roundTrip measures the average of some calls, and fastest the fastest of them.

func (p *probe) roundTrip() (took time.Duration) {
	all := p.roundTrips()
	for _, d := range all {
		took += d / time.Duration(len(all))
	}
	return took
}

func (p *probe) fastest() time.Duration { return slices.Min(p.roundTrips()) }

func (p *probe) roundTrips() (all []time.Duration) {
	for range 8 {
		a := p.exclusive()
		p.grant(a)
		all = append(all, p.last.ended.Sub(p.last.began))
		p.release(a.ID, nil)
	}
	return all
}

// cut makes a call with a ctx that ends after a share of the time that a call takes. If calls take
// no time, ctx ends after i yields of the processor.
func (p *probe) cut(i int, share float64, took time.Duration, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(p.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if took > 0 {
			time.Sleep(time.Duration(share * float64(took)))
		}
		for range i {
			runtime.Gosched()
		}
		cancel()
	})
	defer wg.Wait()
	return call(ctx)
}

func (p *probe) cutAcquire(i int, share float64, took time.Duration) cutCall {
	c := cutCall{verb: "Acquire", r: on(p.exclusive(), fmt.Sprint(p.key, "-acquire-", i))}
	c.err = p.cut(i, share, took, func(ctx context.Context) error {
		res, err := p.store.Acquire(ctx, c.r)
		if err == nil && !res.Granted {
			p.wrong("Acquire, cut off: refused on a free key")
		}
		return err
	})
	return c
}

func (p *probe) cutRenew(i int, share float64, took time.Duration) cutCall {
	c := cutCall{verb: "Renew", r: on(p.exclusive(), fmt.Sprint(p.key, "-renew-", i))}
	c.r.TTL = p.long / 3
	p.grant(c.r)
	c.err = p.cut(i, share, took, func(ctx context.Context) error {
		_, err := p.store.Renew(ctx, driver.Renewal{ID: c.r.ID, TTL: p.long})
		return err
	})
	return c
}

func (p *probe) cutRelease(i int, share float64, took time.Duration) cutCall {
	c := cutCall{verb: "Release", r: on(p.exclusive(), fmt.Sprint(p.key, "-release-", i))}
	p.grant(c.r)
	c.err = p.cut(i, share, took, func(ctx context.Context) error { return p.store.Release(ctx, c.r.ID) })
	return c
}

// verify compares the outcome that a call reported with the claim on its key. No other owner uses
// the key.
func (p *probe) verify(c cutCall) {
	if c.err != nil && !definite(c.err) {
		return // unknown: both are allowed
	}
	if c.verb != "Acquire" && errors.Is(c.err, driver.ErrNotHeld) {
		p.fail("%s, cut off: error %v, though the claim was live", c.verb, c.err)
	}
	look := on(p.exclusive(), c.r.Key)
	res := p.attempt(look)
	held := !res.Granted
	if want := (c.err == nil) == (c.verb != "Release") || c.verb == "Renew"; held != want {
		p.fail("%s, cut off, returned the error %v: the claim is live: %v, want %v", c.verb, c.err, held, want)
	}
	if res.Granted {
		p.release(look.ID, nil)
	}
	if renewed := res.Retry > p.long/2; c.verb == "Renew" && res.Retry > 0 && renewed != (c.err == nil) {
		p.fail("Renew, cut off, returned the error %v: the claim ends in %v", c.err, res.Retry)
	}
}

// traffic acquires keys for a short time, and releases every other one, until a time. Then a store
// has much to clean up. The keys are few, so that a store that looks at some of them at a time
// reaches all of them.
func (p *probe) traffic(key string, until time.Time) {
	for i := 0; time.Now().Before(until); i++ {
		r := on(p.exclusive(), fmt.Sprint(key, "-", i%32))
		r.TTL = max(p.brief()/100, p.store.Features().MinTTL)
		_, _ = p.store.Acquire(p.t.Context(), r) // a busy store may return an error
		if i%2 == 0 {
			_ = p.store.Release(p.t.Context(), r.ID)
		}
		time.Sleep(p.brief() / 300)
	}
}

// hold keeps a short claim alive until a time, by renewals shortly before its end.
func (p *probe) hold(key string, i int, until time.Time) (wrong string) {
	life := max(p.brief()/4, p.store.Features().MinTTL)
	before := life / 50 * time.Duration(1+i%8)
	if i >= 8 { // on a busy machine the others are too late
		before *= 5
	}
	for time.Now().Before(until) {
		a := on(p.exclusive(), key)
		a.TTL = life
		began := time.Now()
		res, err := p.store.Acquire(p.t.Context(), a)
		for err == nil && res.Granted && time.Now().Before(until) {
			if p.has(queue) { // a dead waiter, so that there is something to clean up on this key
				_, _ = p.store.Acquire(p.t.Context(), queued(on(p.exclusive(), key), life/4))
			}
			time.Sleep(time.Until(began.Add(life - before)))
			sent := time.Now()
			_, err = p.store.Renew(p.t.Context(), driver.Renewal{ID: a.ID, TTL: life})
			if errors.Is(err, driver.ErrNotHeld) && time.Since(began) < life {
				return fmt.Sprintf("Renew %v before the end of the claim: error %v", life-time.Since(began), err)
			}
			if err == nil {
				began = sent
			}
		}
		// A renewal was late, or got no answer: its claim may live a little longer.
		time.Sleep(p.brief() / 100)
	}
	return ""
}
