package drivertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

// keys returns the number of keys that the rules about size use, and onOneKey the number of claims
// and queue entries that they put on one key.

func (p *probe) keys() int { return cmp.Or(p.env.Many, 1000) }

func (p *probe) onOneKey() int {
	if p.env.Virtual {
		return cmp.Or(p.env.Many, 1000)
	}
	return cmp.Or(p.env.Many, 200)
}

// rounds returns n, or a quarter of it if Env.Many is small.
func (p *probe) rounds(n int) int {
	if p.keys() < 100 {
		return n / 4
	}
	return n
}

// often returns the rounds of a rule that finds a mistake by chance, each of which takes about this
// time: n, or in real time with the full number of keys as many as two seconds have.
func (p *probe) often(n int, each time.Duration) int {
	if !p.has(virtual) && p.keys() >= 1000 {
		return max(n, int(2*time.Second/each))
	}
	return p.rounds(n)
}

// sizeRules state that nothing depends on the number of keys, claims and entries.
func sizeRules() []rule {
	return []rule{
		{
			name:     "many keys",
			sentence: "List yields every claim, however many there are",
			needs:    list,
			check: func(p *probe) {
				rs := p.manyKeys()
				want := map[string]bool{}
				for _, r := range rs {
					want[r.Key+"/"+driver.Tag(r.Owner)] = true
				}
				for _, c := range p.list(p.key) {
					if id := c.Key + "/" + c.Owner; !want[id] {
						p.fail("List yields %q, which is not there, or for the second time", id)
					} else {
						delete(want, id)
					}
				}
				for id := range want {
					p.fail("List omits %d of %d claims, such as %q", len(want), len(rs), id)
				}
			},
		},
		{
			name:     "many renewals",
			sentence: "RenewAll renews every claim, however many there are",
			check: func(p *probe) {
				rs := make([]driver.Renewal, p.keys()/2)
				p.each(len(rs), func(i int) string {
					r := on(p.exclusive(), fmt.Sprint(p.key, "-", i))
					r.TTL, rs[i] = p.long/2, driver.Renewal{ID: r.ID, TTL: p.long}
					if i%7 == 3 {
						return "" // it is not held
					}
					return p.granted(r)
				})
				for i, got := range p.renewAll(rs) {
					if held := i%7 != 3; held && got.Err != nil || !held && !errors.Is(got.Err, driver.ErrNotHeld) {
						p.fail("answer %d: error %v, the claim is held: %v", i, got.Err, held)
					}
				}
				born := p.last
				for i := range rs {
					if i%7 == 3 || i%17 != 0 && i < len(rs)-2 {
						continue // some are enough
					}
					res := p.refuse(on(p.exclusive(), rs[i].Key))
					// A store that does not report Retry is not compared.
					if _, most := p.since(born); res.Retry > 0 && res.Retry < p.long-most-p.grain {
						p.fail("claim %d of %d was renewed for %v, and ends in %v", i, len(rs), p.long, res.Retry)
					}
				}
			},
		},
		{
			name: "long queue",
			sentence: "a queue of any length is in order, and each attempt reports the position " +
				"of its owner, or that it is at least 17",
			needs: queue,
			check: func(p *probe) {
				a, n := p.exclusive(), p.onOneKey()
				p.grant(a)
				ws := p.enqueue(n)
				for _, i := range []int{0, 1, 16, 17, n / 2, n - 17, n - 2, n - 1} {
					res := p.refuse(ws[i])
					p.counted("ahead", res.Ahead, i)
					p.counted("behind", res.Behind, n-1-i)
				}
				if p.has(show) {
					p.shows(slices.Concat([]driver.Request{a}, ws)...)
				}
				p.counted("behind, renewed", p.renew(a.ID, p.long, nil, nil), n)
				p.release(ws[1].ID, nil)
				p.release(a.ID, nil)
				p.refuse(ws[2])
				p.counted("behind, granted from the queue", p.grant(ws[0]).Behind, n-2)
				p.release(ws[0].ID, nil)
				p.grant(ws[2])
			},
		},
		{
			name:     "many slots",
			sentence: "a limit is exact for many claims too",
			needs:    count,
			check: func(p *probe) {
				n := p.onOneKey()
				rs := make([]driver.Renewal, n)
				p.each(n, func(i int) string {
					r := p.slot(int64(n))
					rs[i] = driver.Renewal{ID: r.ID, TTL: p.long}
					return p.granted(r)
				})
				p.equal("used", p.refuse(p.slot(int64(n))).Used, int64(n))
				for i, got := range p.renewAll(rs) {
					if got.Err != nil {
						p.fail("renewing claim %d of %d: %v", i, n, got.Err)
					}
				}
				p.release(rs[n/2].ID, nil)
				p.equal("used", p.grant(p.slot(int64(n))).Used, int64(n))
				p.refuse(p.slot(int64(n)))
			},
		},
	}
}

// counted checks a number of entries. A store may stop counting at 17, or report a lower bound of
// at least 17: otherwise each attempt of n waiters would read n entries. Fewer than 17 are exact:
// attempts become rare behind more than 16 entries, and Retry is for up to 16.
func (p *probe) counted(what string, got, want int) {
	p.t.Helper()
	if got != want && (got < 17 || got > want) {
		p.fail("%s: %d, want %d, or at least 17 of them", what, got, want)
	}
}

// enqueue adds n entries to the queue, and returns them in order. Positions above 16 are not exact,
// so only Show has the order of entries that were added at the same time.
func (p *probe) enqueue(n int) []driver.Request {
	ws := make([]driver.Request, n)
	for i := range ws {
		ws[i] = queued(p.exclusive(), p.long)
	}
	if !p.has(show) {
		for _, w := range ws {
			p.refuse(w)
		}
		return ws
	}
	p.each(n, func(i int) string {
		res, err := p.store.Acquire(p.t.Context(), ws[i])
		if err != nil || res.Granted || res.Ahead >= n {
			return fmt.Sprintf("Acquire behind a queue: granted %v, error %v, ahead %d",
				res.Granted, err, res.Ahead)
		}
		return ""
	})
	at := map[string]int{}
	for i, c := range p.show(p.key) {
		at[c.Owner] = i
	}
	slices.SortFunc(ws, func(a, b driver.Request) int {
		return cmp.Compare(at[driver.Tag(a.Owner)], at[driver.Tag(b.Owner)])
	})
	return ws
}

// manyKeys grants claims on many keys. Neighbours differ by bytes that are easily lost where one
// page of a list ends and the next begins. Every fifth key has two claims.
func (p *probe) manyKeys() []driver.Request {
	ends := []string{"", "\x00", "\x00\x00", "\x00\xff", " ", "0", "\xff"}
	var rs []driver.Request
	for i := range p.keys() {
		r := on(p.shared(), fmt.Sprintf("%s-%03d%s", p.key, i/len(ends), ends[i%len(ends)]))
		rs = append(rs, r)
		if i%5 == 0 {
			rs = append(rs, on(p.shared(), r.Key))
		}
	}
	p.each(len(rs), func(i int) string { return p.granted(rs[i]) })
	return rs
}

// renewAll renews many claims.
func (p *probe) renewAll(rs []driver.Renewal) []driver.Renewed {
	began := time.Now()
	got := driver.RenewAll(p.t.Context(), p.store, rs)
	p.last = span{began, time.Now()}
	p.equal("how many answers RenewAll returns", len(got), len(rs))
	return got
}

// granted acquires a claim. It returns a mistake, or "".
func (p *probe) granted(r driver.Request) (wrong string) {
	if res, err := p.store.Acquire(p.t.Context(), r); err != nil || !res.Granted {
		return fmt.Sprintf("Acquire(%s): granted %v (used %d, blocked by %+v), error %v; want granted", describe(r),
			res.Granted, res.Used, res.Blocker, err)
	}
	return ""
}

// each makes n calls, several at a time. The claims that the rule relies on afterwards live from
// here on.
func (p *probe) each(n int, call func(i int) (wrong string)) {
	const workers = 8
	p.until = time.Now().Add(p.long / 2)
	var next atomic.Int64
	var failed atomic.Pointer[string]
	p.together(workers, func(int) string {
		for failed.Load() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				break
			}
			if wrong := call(i); wrong != "" {
				failed.Store(&wrong)
			}
		}
		return ""
	})
	p.last = span{time.Now(), time.Now()}
	if wrong := failed.Load(); wrong != nil {
		p.fail("%s", *wrong)
	}
}
