package drivertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// manyRules state what holds for many callers, and what they leave behind.
func manyRules() []rule {
	return []rule{
		{
			name: "cancel",
			sentence: "with a ctx that has ended a call returns at once, and Release cleans up " +
				"after it",
			check: func(p *probe) {
				a, b := p.exclusive(), p.exclusive()
				p.obeys(func(ctx context.Context) error { _, err := p.store.Acquire(ctx, a); return err })
				p.clear(a)
				p.grant(b)
				p.obeys(func(ctx context.Context) error {
					_, err := p.store.Renew(ctx, driver.Renewal{ID: b.ID, TTL: p.long})
					return err
				})
				p.refuse(p.exclusive())
				p.obeys(func(ctx context.Context) error { return p.store.Release(ctx, b.ID) })
				p.clear(b)
				if p.has(queue) {
					a, w := p.exclusive(), queued(p.exclusive(), p.long)
					p.grant(a)
					p.obeys(func(ctx context.Context) error { _, err := p.store.Acquire(ctx, w); return err })
					p.withdraw(w)
					p.release(a.ID, nil)
					p.clear(w)
				}
				if p.has(show) {
					p.equal("how many claims and entries are on the key", len(p.show(p.key)), 0)
				}
			},
		},
		{
			name: "race",
			sentence: "with many callers at once, one exclusive claim is live, and the fences " +
				"of all are Span apart",
			check: func(p *probe) {
				fences := p.race(1, p.exclusive)
				slices.Sort(fences)
				for i := range fences[1:] {
					if p.has(fence) {
						p.atLeast("the next of all assigned fences", fences[i+1], fences[i]+driver.Span)
					}
				}
			},
		},
		{
			name: "race for slots",
			sentence: "with many callers at once, the limit holds, and a fence is above those " +
				"of claims that had ended",
			needs: count,
			check: func(p *probe) {
				p.race(3, func() driver.Request { return p.slot(3) })
			},
		},
		{
			name:     "one owner",
			sentence: "an owner that calls Acquire many times at once has one claim",
			check: func(p *probe) {
				a := p.shared()
				fences := make([]uint64, 8)
				p.together(len(fences), func(i int) string {
					res, err := p.store.Acquire(p.t.Context(), a)
					if fences[i] = res.Fence; err != nil || !res.Granted || res.Used != 1 {
						return fmt.Sprintf("granted %v, used %d, error %v; want granted, used 1",
							res.Granted, res.Used, err)
					}
					return ""
				})
				for _, f := range append(fences, p.grant(a).Fence) {
					p.equal("fence", f, fences[0])
				}
				p.equal("used", p.grant(a).Used, int64(1))
				p.release(a.ID, nil)
				p.grant(p.exclusive())
			},
		},
		{
			name:     "two stores",
			sentence: "one owner, through two stores at once, is never lost",
			needs:    anyServer | second,
			check: func(p *probe) {
				n, took := p.rounds(24), p.roundTrip()
				stores := []driver.Store{p.env.second(p.t, p.store), p.store}
				rs, granted := make([]driver.Request, n), make([]driver.Result, n)
				for i := range n {
					rs[i] = on(p.exclusive(), fmt.Sprint(p.key, "-", i))
					granted[i] = p.throughBoth(rs[i], stores[i/2%2], stores[1-i/2%2], i, took)
				}
				p.wait(0.5) // for an undo that comes late
				for i, r := range rs {
					if !granted[i].Granted {
						continue // the outcome is unknown
					}
					for _, s := range stores {
						p.store = s
						p.renew(r.ID, p.long, nil, nil)
						p.refuse(on(p.exclusive(), r.Key))
					}
					p.equal("the fence of a repeated Acquire", p.grant(r).Fence, granted[i].Fence)
					p.release(r.ID, nil)
				}
			},
		},
		{
			name:     "renew and release",
			sentence: "a renewal concurrent with a release does not bring the claim back",
			check: func(p *probe) {
				for range 20 {
					a := p.exclusive()
					p.grant(a)
					p.together(4, func(i int) string {
						var err error
						if i == 0 {
							err = p.store.Release(p.t.Context(), a.ID)
						} else {
							_, err = p.store.Renew(p.t.Context(), driver.Renewal{ID: a.ID, TTL: p.long})
						}
						if i > 0 && errors.Is(err, driver.ErrNotHeld) {
							err = nil
						}
						if err != nil {
							return err.Error()
						}
						return ""
					})
					b := p.exclusive()
					p.grant(b)
					p.release(b.ID, nil)
				}
			},
		},
		{
			name:     "leak",
			sentence: "nothing is left behind on idle keys",
			check: func(p *probe) {
				p.idle()
				before := p.leftovers()
				for i := range 10 {
					p.use(fmt.Sprint(p.key, "-", i))
				}
				if p.has(virtual) {
					time.Sleep(11 * time.Minute) // a store may remember fences for ten
				} else {
					p.outlive(p.last, p.ttl)
				}
				p.idle()
				if after := p.leftovers(); after > before {
					p.fail("the store keeps %d things more than before", after-before)
				}
				if p.has(list) {
					p.equal("how many claims are listed", len(p.list(p.key)), 0)
				}
			},
		},
	}
}

// throughBoth acquires r through one store with a ctx that ends during the call, and through
// another with one that does not: at the same time, or after the first call has returned. It
// returns the result of the second call, or none if its outcome is unknown.
func (p *probe) throughBoth(
	r driver.Request, first, second driver.Store, i int, took time.Duration,
) (res driver.Result) {
	returned := make(chan struct{})
	p.together(2, func(w int) (wrong string) {
		if w == 0 {
			defer close(returned)
			_ = p.cut(i, float64(i%8)/6, took, func(ctx context.Context) error {
				_, err := first.Acquire(ctx, r)
				return err
			})
			return ""
		}
		if i%2 == 1 {
			<-returned
		}
		got, err := second.Acquire(p.t.Context(), r)
		switch {
		case err != nil:
			return "" // a busy store may return an error
		case !got.Granted:
			return "a claim was refused that the same owner acquired through another store"
		}
		res = got
		return ""
	})
	return res
}

// obeys makes a call with a ctx that has ended. The call may succeed, or return the error of ctx.
func (p *probe) obeys(call func(ctx context.Context) error) {
	began := time.Now()
	err := call(p.endedCtx())
	if err != nil && !errors.Is(err, context.Canceled) {
		p.fail("a call with a ctx that has ended: error %v, want none or context.Canceled", err)
	}
	if took := time.Since(began); took > p.ttl && p.has(virtual) {
		p.fail("a call with a ctx that has ended took %v", took)
	}
}

// clear undoes the outcome of a call for r, after which the key must be free. A call that was cut
// off may take effect a little later.
func (p *probe) clear(r driver.Request) {
	for by := time.Now().Add(p.patience); ; time.Sleep(p.ttl / 20) {
		p.withdraw(r)
		next := p.exclusive()
		if p.attempt(next).Granted {
			p.release(next.ID, nil)
			return
		}
		if time.Now().After(by) {
			p.fail("the key is not free after Release")
		}
	}
}

// withdraw releases a claim or an entry that may not exist.
func (p *probe) withdraw(r driver.Request) {
	if err := p.store.Release(p.t.Context(), r.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		p.fail("Release: %v", err)
	}
}

// A racer is one holder of a claim in a race.
type racer struct{ began time.Time }

// race lets many callers acquire claims of their own, hold them for a moment and release them. It
// returns the assigned fences.
func (p *probe) race(limit int, request func() driver.Request) (fences []uint64) {
	var mu sync.Mutex
	var ended uint64 // the highest fence of a claim that has ended
	live := map[*racer]bool{}
	round := func() (wrong string) {
		mu.Lock()
		least := ended + driver.Span
		mu.Unlock()
		a, me := request(), &racer{time.Now()}
		res, err := p.store.Acquire(p.t.Context(), a)
		switch {
		case err != nil:
			return fmt.Sprintf("Acquire: %v", err)
		case !res.Granted:
			time.Sleep(p.ttl / 1000)
			return ""
		case p.has(fence) && res.Fence < least:
			return fmt.Sprintf("fence %d, though a claim had ended that makes it at least %d", res.Fence, least)
		}
		mu.Lock()
		// After a scheduler stall a claim may have ended that its caller still counts.
		maps.DeleteFunc(live, func(r *racer, _ bool) bool { return time.Since(r.began) >= p.long })
		live[me] = true
		n := len(live)
		fences = append(fences, res.Fence)
		mu.Unlock()
		if n > limit {
			return fmt.Sprintf("%d claims are live, want at most %d", n, limit)
		}
		time.Sleep(max(p.ttl/1000, time.Since(me.began))) // hold it while the others attempt
		mu.Lock()
		delete(live, me)
		mu.Unlock()
		if err := p.store.Release(p.t.Context(), a.ID); err != nil && time.Since(me.began) < p.long {
			return fmt.Sprintf("Release: %v", err)
		}
		mu.Lock()
		ended = max(ended, res.Fence)
		mu.Unlock()
		return ""
	}
	p.together(8, func(int) (wrong string) {
		for range 30 {
			if wrong = round(); wrong != "" {
				break
			}
		}
		return wrong
	})
	if len(fences) == 0 {
		p.wrong("no claim was granted")
	}
	p.grant(p.exclusive())
	return fences
}

// together runs f n times at once, and fails the rule if a run returns a mistake.
func (p *probe) together(n int, f func(i int) (wrong string)) {
	wrongs := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { wrongs[i] = f(i) })
	}
	wg.Wait()
	for _, wrong := range wrongs {
		if wrong != "" {
			p.wrong("%s", wrong)
		}
	}
}

// use makes all kinds of calls on a key, and leaves it idle after at most one TTL.
func (p *probe) use(key string) {
	a, b := on(p.exclusive(), key), on(p.short(p.exclusive()), key)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	if p.has(watch) {
		driver.Watch(ctx, p.store, b.ID)
	}
	p.grant(a)
	p.while(p.last, p.long, func() {
		if p.has(queue) {
			p.refuse(queued(b, p.ttl))
			p.until = p.last.began.Add(p.ttl)
			p.refuse(queued(on(p.exclusive(), key), p.ttl)) // never attempts again
		}
		p.release(a.ID, nil)
		p.grant(b)
	})
	p.while(p.last, p.ttl, func() {
		if p.has(breaks) {
			p.broken(key, b)
		} else {
			p.release(b.ID, nil)
		}
	})
	if p.has(expiry) {
		p.grant(on(p.short(p.exclusive()), key+"-expires"))
	}
	if p.has(keep | expiry) {
		c := on(p.exclusive(), key+"-kept")
		p.grant(c)
		p.renewal(driver.Renewal{ID: c.ID, TTL: p.ttl, Keep: true}, nil)
	}
}

// leftovers counts the things that the store keeps, if env can count them.
func (p *probe) leftovers() int {
	if p.env.Leftovers == nil {
		return 0
	}
	return p.env.Leftovers(p.t, p.store)
}
