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
	// probePrefix belongs to no kind, so ls does not show probes.
	probePrefix = "~doctor/"

	// A probe acquires the lock probeRounds times, for medians, and stops earlier if that takes
	// longer than probeTime.
	probeRounds = 15
	probeTime   = time.Second

	probeTTL   = 10 * time.Second
	probeLimit = 5 * time.Second // for one call

	// A probe waits wakeLimit for the notification of a release, and tries wakeTries times.
	// wakeLimit is many round trips.
	wakeLimit = 500 * time.Millisecond
	wakeTries = 2

	// mostTrips is the largest number of round trips that a renewal may take. If a renewal takes
	// more, the measured call was no round trip: the store answered it by itself.
	mostTrips = 50

	// slow is the time of an acquire from which short TTLs cannot be renewed in time.
	slow = 250 * time.Millisecond
)

// waitersPoll is the consequence if waiters are not notified. The stores use the same words, so
// that doctor does not report it twice.
const waitersPoll = "waiters poll, and notice a release up to a second late"

var errStillHeld = errors.New("it was still held")

// A speed has the medians of a few calls, in seconds. RoundTrip is the time of a call that changes
// nothing, which is the least that a call can take. It is 0 if the store answers that call by
// itself.
type speed struct {
	RoundTrip float64 `json:"round_trip,omitempty"`
	Acquire   float64 `json:"acquire"`
	Renew     float64 `json:"renew"`
	Release   float64 `json:"release"`
}

// A probe acquires a lock as other clients do, under a name that nobody else uses.
type probe struct {
	store    driver.Store
	key      string
	ttl      time.Duration
	findings []driver.Finding
	polls    bool // the store itself reports that waiters are not notified
	granted  bool
	err      error // the error that ended the probe early

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

// run runs the probe. It leaves nothing in the store but the last fencing token of the key, which
// the store forgets by itself.
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
			p.danger(fmt.Sprintf("a fencing token did not grow: %d after %d", fence, last),
				"a resource accepts a late writer", useAnother)
			return
		}
		last = fence
	}
	p.leftovers(ctx)
	p.found(driver.Finding{Level: driver.LevelOK, What: "a lock was acquired, denied to a rival, renewed and released"})
	if median(p.acquires) > slow {
		p.found(driver.Finding{
			Level: driver.LevelWarning, What: fmt.Sprintf("acquiring a lock takes %v", short(median(p.acquires))),
			Means: "a lease with a short TTL is lost before it can be renewed twice",
			Cure:  "use TTLs of 30 s or more, or a store that is nearer",
		})
	}
	p.wake(ctx)
}

// useAnother is the cure for a store that breaks a rule of its contract.
const useAnother = "use another store, and report the bug to its author"

// round acquires a lock, renews it and releases it. With rival, a second owner must be refused.
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
		return 0, p.failed("acquired", err)
	case !res.Granted:
		p.danger("a name that nobody uses is refused", "locks cannot be acquired", useAnother)
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
	release := func(ctx context.Context) error { return p.store.Release(ctx, a.ID) }
	if err := p.timed(ctx, &p.releases, release); err != nil {
		return 0, p.failed("released", err)
	}
	err = p.timed(ctx, &p.trips, release)
	if !errors.Is(err, driver.ErrNotHeld) {
		return 0, p.failed("found free after its release", cmp.Or(err, errStillHeld))
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
		return p.failed("requested by a rival", err)
	}
	if res.Granted {
		p.danger("two owners were granted one lock", "nobody is excluded", useAnother)
	}
	return !res.Granted
}

// leftovers reports claims of the probe that are still in the store.
func (p *probe) leftovers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if left, err := driver.Show(ctx, p.store, p.key); err == nil && len(left) > 0 {
		p.danger(fmt.Sprintf("%d claims of released locks are still in the store", len(left)), "names stay held", useAnother)
	}
}

// wake checks whether waiters are notified of a release. A notification is a hint, and one may be
// missed.
func (p *probe) wake(ctx context.Context) {
	if p.polls {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	wakes := driver.Watch(ctx, p.store, driver.ID{Key: p.key})
	for range wakeTries {
		notified, ok := p.notified(ctx, wakes)
		if !ok {
			return
		}
		if notified {
			p.found(driver.Finding{Level: driver.LevelOK, What: "waiters are notified of a release"})
			return
		}
	}
	p.found(driver.Finding{
		Level: driver.LevelWarning,
		What:  fmt.Sprintf("no notification of a release arrived within %v", wakeTries*wakeLimit),
		Means: waitersPoll,
		Cure: "give this user access to the channels of the store, and check that no proxy delays notifications: see " +
			p.page(),
	})
}

// notified acquires and releases the lock, and reports whether a notification of the release
// arrived. It is not ok if a call failed.
func (p *probe) notified(ctx context.Context, wakes <-chan driver.Wake) (notified, ok bool) {
	a := p.request()
	defer p.withdraw(ctx, a.ID)
	if _, err := p.store.Acquire(ctx, a); err != nil {
		return false, p.failed("acquired again", err)
	}
	select {
	case <-wakes: // the wake-up at the beginning of the watch
	default:
	}
	if err := p.store.Release(ctx, a.ID); err != nil {
		return false, p.failed("released again", err)
	}
	late := time.NewTimer(wakeLimit)
	defer late.Stop()
	select {
	case <-wakes:
		return true, true
	case <-late.C:
		return false, true
	case <-ctx.Done():
		return false, false
	}
}

// request returns a request for the lock of the probe by a new owner.
func (p *probe) request() driver.Request {
	return driver.Request{
		ID: driver.ID{Key: p.key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole,
		TTL: p.ttl, Holder: "distlock doctor",
	}
}

// withdraw releases a claim that may have been granted, also after ctx has ended.
func (p *probe) withdraw(ctx context.Context, id driver.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.store.Release(ctx, id) // if it fails, the claim expires
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
	p.found(driver.Finding{Level: driver.LevelDanger, What: what, Means: means, Cure: cure})
}

// failed records that a step failed. It returns false, so that a caller can return its result.
func (p *probe) failed(step string, err error) bool {
	p.err = err
	p.danger("a lock could not be "+step+": "+err.Error(), "locks cannot be acquired or kept",
		"fix the cause of the error; "+p.page()+" lists the permissions that a user of the store needs")
	return false
}

// page returns the document that lists the permissions that a user of the store needs.
func (p *probe) page() string {
	if name := p.store.Features().Name; name == "postgres" || name == "pgadvisory" || name == "mysql" {
		return "docs/" + name + ".md"
	}
	return "docs/layout.md"
}

// speed returns the medians of the measured times. It is nil if no round of the probe succeeded.
func (p *probe) speed() *speed {
	if len(p.trips) == 0 {
		return nil
	}
	s := &speed{
		median(p.trips).Seconds(), median(p.acquires).Seconds(), median(p.renews).Seconds(), median(p.releases).Seconds(),
	}
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
