package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// probePrefix is of no kind that has a list: probes are not shown by ls.
	probePrefix = "~doctor/"

	// A probe takes the lock so many times, for medians, unless that takes longer than probeTime.
	probeRounds = 15
	probeTime   = time.Second

	probeTTL   = 10 * time.Second
	probeLimit = 5 * time.Second // for one call

	// wakeLimit is how long a probe waits for the word of a release, and wakeTries how often. It is many round trips.
	wakeLimit = 500 * time.Millisecond
	wakeTries = 2

	// mostTrips is how many round trips a renewal may take. If it took more, what was measured was none.
	mostTrips = 50

	// slow is when an acquire takes so long that short TTLs cannot be renewed in time.
	slow = 250 * time.Millisecond
)

// asksAgain is what follows if nobody is told of a release, in the words of the stores.
const asksAgain = "waiters poll, and notice a release up to a second late"

var errStillHeld = errors.New("it was still held")

// A speed is how long calls took, in seconds: the median of a few. RoundTrip is the least that a call can take, that
// of one which changes nothing; 0 if the store answers that without asking anybody.
type speed struct {
	RoundTrip float64 `json:"round_trip,omitempty"`
	Acquire   float64 `json:"acquire"`
	Renew     float64 `json:"renew"`
	Release   float64 `json:"release"`
}

// A probe takes a lock as others do, under a name that nobody else has.
type probe struct {
	store    driver.Store
	key      string
	ttl      time.Duration
	findings []driver.Finding
	known    bool // the store says itself that nobody is told of a release
	granted  bool
	err      error // what ended it before its time

	trips, acquires, renews, releases []time.Duration
}

func newProbe(s driver.Store) *probe {
	f := s.Features()
	p := &probe{store: s, key: probePrefix + rand.Text(), ttl: max(probeTTL, f.MinTTL)}
	if f.MaxTTL > 0 {
		p.ttl = min(p.ttl, f.MaxTTL)
	}
	return p
}

// run does all of it, and leaves nothing behind but the key's last fence, which the store forgets by itself.
func (p *probe) run(ctx context.Context) {
	var last uint64
	began := time.Now()
	for i := range probeRounds {
		if i > 1 && time.Since(began) > probeTime {
			break
		}
		fence, ok := p.round(ctx, i == 0)
		if !ok {
			return
		}
		if p.store.Features().Fence && i > 0 && fence < last+driver.Span {
			p.danger(fmt.Sprintf("a fence did not rise: %d after %d", fence, last), "a resource lets a late writer in",
				"use another store, and tell its author")
			return
		}
		last = fence
	}
	p.leftovers(ctx)
	p.found(driver.Finding{Level: driver.OK, What: "a lock was taken, kept from a rival, renewed and given back"})
	if median(p.acquires) > slow {
		p.found(driver.Finding{
			Level: driver.Warning, What: fmt.Sprintf("to take a lock takes %v", short(median(p.acquires))),
			Means: "a lease that is short is lost before it could be renewed twice", Cure: "use TTLs of 30 s and more, or a store that is nearer",
		})
	}
	p.wake(ctx)
}

// round takes a lock, renews it and gives it back. In the first one a rival asks too.
func (p *probe) round(ctx context.Context, rival bool) (fence uint64, ok bool) {
	a := p.request()
	defer p.withdraw(ctx, a.ID)
	var res driver.Result
	err := p.timed(ctx, &p.acquires, func(ctx context.Context) (err error) {
		res, err = p.store.Acquire(ctx, a)
		return err
	})
	switch {
	case err != nil:
		return 0, p.failed("taken", err)
	case !res.Granted:
		p.danger("a name that nobody uses is refused", "locks cannot be had", "use another store, and tell its author")
		return 0, false
	}
	p.granted = true
	if rival && !p.excludes(ctx) {
		return 0, false
	}
	err = p.timed(ctx, &p.renews, func(ctx context.Context) error {
		_, err := p.store.Renew(ctx, driver.Renewal{ID: a.ID, TTL: p.ttl})
		return err
	})
	if err != nil {
		return 0, p.failed("renewed", err)
	}
	if err := p.timed(ctx, &p.releases, func(ctx context.Context) error { return p.store.Release(ctx, a.ID) }); err != nil {
		return 0, p.failed("given back", err)
	}
	err = p.timed(ctx, &p.trips, func(ctx context.Context) error { return p.store.Release(ctx, a.ID) })
	if !errors.Is(err, driver.ErrNotHeld) {
		return 0, p.failed("found free after it was given back", cmp.Or(err, errStillHeld))
	}
	return res.Fence, true
}

// excludes reports whether a rival is refused.
func (p *probe) excludes(ctx context.Context) bool {
	b := p.request()
	defer p.withdraw(ctx, b.ID)
	var res driver.Result
	err := p.timed(ctx, new([]time.Duration), func(ctx context.Context) (err error) {
		res, err = p.store.Acquire(ctx, b)
		return err
	})
	if err != nil {
		return p.failed("asked for by a rival", err)
	}
	if res.Granted {
		p.danger("two owners were granted one lock", "nobody is excluded", "use another store, and tell its author")
	}
	return !res.Granted
}

// leftovers looks whether anything of the probe is still there.
func (p *probe) leftovers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if left, err := driver.Show(ctx, p.store, p.key); err == nil && len(left) > 0 {
		p.danger(fmt.Sprintf("%d claims are left of locks that were given back", len(left)), "names stay taken", "use another store, and tell its author")
	}
}

// wake finds out whether the word of a release comes to those who wait for it. It is a hint, and one may be missed.
func (p *probe) wake(ctx context.Context) {
	if p.known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	news := driver.Watch(ctx, p.store, driver.ID{Key: p.key})
	for range wakeTries {
		told, ok := p.told(ctx, news)
		if !ok {
			return
		}
		if told {
			p.found(driver.Finding{Level: driver.OK, What: "those who wait are told of a release"})
			return
		}
	}
	p.found(driver.Finding{
		Level: driver.Warning, What: fmt.Sprintf("no word of a release came within %v", wakeTries*wakeLimit),
		Means: asksAgain, Cure: "allow this user the channels of the store, and let nothing in between hold them back: see " + p.page(),
	})
}

// told takes and gives back the lock, and reports whether there was word of it. If it could not, it is not ok.
func (p *probe) told(ctx context.Context, news <-chan driver.Wake) (told, ok bool) {
	a := p.request()
	defer p.withdraw(ctx, a.ID)
	if _, err := p.store.Acquire(ctx, a); err != nil {
		return false, p.failed("taken again", err)
	}
	select {
	case <-news: // that the watch began
	default:
	}
	if err := p.store.Release(ctx, a.ID); err != nil {
		return false, p.failed("given back again", err)
	}
	late := time.NewTimer(wakeLimit)
	defer late.Stop()
	select {
	case <-news:
		return true, true
	case <-late.C:
		return false, true
	case <-ctx.Done():
		return false, false
	}
}

// request asks for the probe's lock as somebody new.
func (p *probe) request() driver.Request {
	return driver.Request{
		ID: driver.ID{Key: p.key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: p.ttl, Holder: "distlock doctor",
	}
}

// withdraw gives back what may have been granted, also when the user has left.
func (p *probe) withdraw(ctx context.Context, id driver.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.store.Release(ctx, id) // if it fails, the claim ends by itself
}

func (p *probe) timed(ctx context.Context, times *[]time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	began := time.Now()
	err := f(ctx)
	*times = append(*times, time.Since(began))
	return err
}

func (p *probe) found(f driver.Finding) { p.findings = append(p.findings, f) }

func (p *probe) danger(what, means, cure string) {
	p.found(driver.Finding{Level: driver.Danger, What: what, Means: means, Cure: cure})
}

// failed notes that a step ended in an error. It is false, for whoever asks whether to go on.
func (p *probe) failed(step string, err error) bool {
	p.err = err
	p.danger("a lock could not be "+step+": "+err.Error(), "locks cannot be had or kept",
		"mend what the error names; what a user of the store needs is in "+p.page())
	return false
}

// page is where the rights are that a user of the store needs.
func (p *probe) page() string {
	if name := p.store.Features().Name; name == "postgres" || name == "pgadvisory" {
		return "docs/" + name + ".md"
	}
	return "docs/layout.md"
}

// speed is what was measured, if all was.
func (p *probe) speed() *speed {
	if len(p.trips) == 0 {
		return nil
	}
	s := &speed{median(p.trips).Seconds(), median(p.acquires).Seconds(), median(p.renews).Seconds(), median(p.releases).Seconds()}
	if s.RoundTrip*mostTrips < s.Renew {
		s.RoundTrip = 0
	}
	return s
}

func median(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}
