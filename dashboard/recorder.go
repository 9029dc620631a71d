package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

const (
	// maxEvents is how many events a Recorder remembers.
	maxEvents = 2048

	// maxKnown is how many claims and waiters a Recorder remembers, for the events that follow.
	maxKnown = 20_000
)

// A Recorder is a store that forwards every call to another store, and remembers what it saw: the
// rates, waits and events of the pages. They are those of the calls that go through this Recorder,
// since it was made. It keeps nothing that a lock depends on, and its memory is bounded.
type Recorder struct {
	driver.Forward
	born time.Time

	mu     sync.Mutex
	known  map[driver.ID]*known
	pruned time.Time
	total  counts
	hour   series
	day    series
	events [maxEvents]Event
	next   int // the number of events so far

	tasks deadlocks
}

// known is a claim or a waiter that went through the Recorder.
type known struct {
	holder  string
	since   time.Time     // of the grant, or of the first refusal
	ends    time.Time     // when it is forgotten unless it is seen again
	ttl     time.Duration // of the lease, if it waits
	waiting bool
	broken  bool
	ended   bool // it is known that it has ended, or that it ends without a release
	fence   uint64
}

// An EventType says what happened to a claim.
type EventType string

// The events.
const (
	EventGranted  EventType = "granted"
	EventRefused  EventType = "refused"  // an attempt that does not wait
	EventWaits    EventType = "waits"    // the first refusal of a caller that waits
	EventReleased EventType = "released" // also a waiter that leaves the queue
	EventLost     EventType = "lost"     // a renewal found that the claim had ended
	EventExpired  EventType = "expired"  // a scan found that the lease had run out
	EventBroken   EventType = "broken"
)

// An Event is something that happened to a claim on a key.
type Event struct {
	At     time.Time
	Type   EventType
	Key    string
	Holder string // "" if it is not known
	Owner  string // the tag of the owner: see [driver.Tag]
	Fence  uint64
	For    time.Duration // how long it waited, was held, or was waited for
	Reason string        // of a break
}

// NewRecorder returns a recorder of the calls of a store.
func NewRecorder(s driver.Store) *Recorder {
	now := time.Now()
	return &Recorder{
		Forward: driver.Forward{Store: s}, born: now, known: map[driver.ID]*known{},
		hour: newSeries(now, 10*time.Second, 360), day: newSeries(now, 5*time.Minute, 288),
	}
}

// Acquire forwards to the store.
func (r *Recorder) Acquire(ctx context.Context, q driver.Request) (driver.Result, error) {
	began := time.Now()
	res, err := r.Store.Acquire(ctx, q)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called(now, now.Sub(began))
	if err != nil || !isName(q.Key) {
		if err == nil && res.Granted {
			r.tasks.posted(r.Store, q, now) //nolint:contextcheck // it looks at the store in the background
		}
		return res, err
	}
	k := r.known[q.ID]
	switch {
	case res.Granted && (k == nil || k.waiting):
		r.granted(now, q.ID, k, q.Holder, res.Fence, q.TTL)
	case res.Granted:
		k.ends = now.Add(q.TTL)
	case k != nil:
		k.ends = now.Add(max(q.QueueTTL, time.Minute))
	case q.QueueTTL > 0:
		r.withdrawRefusal(q, now)
		r.remember(q.ID, &known{holder: q.Holder, since: now, ends: now.Add(max(q.QueueTTL, time.Minute)), ttl: q.TTL, waiting: true}, now)
		r.count(now, func(c *counts) { c.Waits++ })
		r.emit(Event{At: now, Type: EventWaits, Key: q.Key, Holder: q.Holder, Owner: driver.Tag(q.Owner)})
	default:
		r.count(now, func(c *counts) { c.Refused++ })
		r.emit(Event{At: now, Type: EventRefused, Key: q.Key, Holder: q.Holder, Owner: driver.Tag(q.Owner)})
	}
	return res, err
}

// withdrawRefusal removes the event of a refused attempt if the same caller joins the queue now:
// the library attempts once before it waits, with another owner.
func (r *Recorder) withdrawRefusal(q driver.Request, now time.Time) {
	for i := r.next - 1; i >= 0 && i > r.next-maxEvents && now.Sub(r.events[i%maxEvents].At) < time.Second; i-- {
		e := &r.events[i%maxEvents]
		if e.Type == EventRefused && e.Key == q.Key && e.Holder == q.Holder {
			*e = Event{At: e.At} // of no type: no page shows it
			r.count(now, func(c *counts) { c.Refused-- })
			return
		}
	}
}

// Pushed records a grant that the store made by itself, and that a watcher has received: see
// [driver.Wake]. The owner need not call [Recorder.Acquire] then.
func (r *Recorder) Pushed(id driver.ID, w driver.Wake) {
	if !w.Granted || !isName(id.Key) {
		return
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known[id]; k != nil && k.waiting {
		r.granted(now, id, k, k.holder, w.Fence, k.ttl)
	}
}

// granted records a grant.
func (r *Recorder) granted(now time.Time, id driver.ID, waiter *known, holder string, fence uint64, ttl time.Duration) {
	waited := time.Duration(0)
	if waiter != nil {
		waited = now.Sub(waiter.since)
	}
	r.remember(id, &known{holder: holder, since: now, ends: now.Add(ttl), fence: fence}, now)
	kind, _, _ := names.Split(id.Key)
	r.count(now, func(c *counts) {
		if c.Grants++; kind != names.Election { // candidates wait for as long as there is a leader
			c.WaitMax = max(c.WaitMax, waited)
		}
	})
	r.emit(Event{At: now, Type: EventGranted, Key: id.Key, Holder: holder, Owner: driver.Tag(id.Owner), Fence: fence, For: waited})
}

// Renew forwards to the store.
func (r *Recorder) Renew(ctx context.Context, n driver.Renewal) (int, error) {
	began := time.Now()
	behind, err := r.Store.Renew(ctx, n)
	r.renewed(began, []driver.Renewal{n}, []driver.Renewed{{Behind: behind, Err: err}})
	return behind, err
}

// RenewAll forwards to the store.
func (r *Recorder) RenewAll(ctx context.Context, ns []driver.Renewal) []driver.Renewed {
	began := time.Now()
	out := driver.RenewAll(ctx, r.Store, ns)
	r.renewed(began, ns, out)
	return out
}

// renewed records renewals.
func (r *Recorder) renewed(began time.Time, ns []driver.Renewal, out []driver.Renewed) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called(now, now.Sub(began))
	for i, n := range ns {
		k := r.known[n.ID]
		switch err := out[i].Err; {
		case !isName(n.Key):
			r.tasks.renewed(n.ID, now)
		case errors.Is(err, driver.ErrNotHeld):
			r.lost(now, n.ID, k, err)
		case err == nil && k != nil:
			k.ends, k.ended = now.Add(n.TTL), n.Keep // a record ends by itself
		}
	}
}

// expired records the leases that ran out: those that a scan of all claims does not have although
// no release, break or renewal of them went through the Recorder until their end. has reports
// whether the scan, which began at a time, has a claim.
func (r *Recorder) expired(at time.Time, has func(key, tag string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, k := range r.known {
		kind, _, _ := names.Split(id.Key)
		if k.waiting || k.ended || kind == names.RateLimit || !at.After(k.ends) || has(id.Key, driver.Tag(id.Owner)) {
			continue // a pass of a rate limit ends by itself
		}
		k.ended = true
		r.count(at, func(c *counts) { c.Lost++ })
		r.emit(Event{At: k.ends, Type: EventExpired, Key: id.Key, Holder: k.holder, Owner: driver.Tag(id.Owner), Fence: k.fence, For: k.ends.Sub(k.since)})
	}
}

// lost records a claim that a renewal did not find.
func (r *Recorder) lost(now time.Time, id driver.ID, k *known, err error) {
	e := Event{At: now, Type: EventLost, Key: id.Key, Owner: driver.Tag(id.Owner)}
	if k != nil {
		e.Holder, e.Fence, e.For = k.holder, k.fence, now.Sub(k.since)
	}
	if broken := (*driver.BrokenError)(nil); errors.As(err, &broken) {
		e.Reason = broken.Reason
	}
	delete(r.known, id)
	if k == nil || !k.ended || k.broken { // otherwise it was counted when the lease had run out
		r.count(now, func(c *counts) { c.Lost++ })
	}
	r.emit(e)
}

// Release forwards to the store.
func (r *Recorder) Release(ctx context.Context, id driver.ID) error {
	began := time.Now()
	err := r.Store.Release(ctx, id)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called(now, now.Sub(began))
	if !isName(id.Key) {
		r.tasks.removed(id)
		return err
	}
	k := r.known[id]
	if err == nil {
		e := Event{At: now, Type: EventReleased, Key: id.Key, Owner: driver.Tag(id.Owner)}
		if k != nil {
			e.Holder, e.Fence, e.For = k.holder, k.fence, now.Sub(k.since)
		}
		r.count(now, func(c *counts) { c.Released++ })
		r.emit(e)
	}
	if err == nil || errors.Is(err, driver.ErrNotHeld) {
		delete(r.known, id)
	}
	return err
}

// Break forwards to the store.
func (r *Recorder) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	claims, err := driver.Break(ctx, r.Store, key, upTo, reason)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	tags := map[string]bool{}
	for _, c := range claims {
		tags[c.Owner] = true
		if isName(key) {
			r.count(now, func(c *counts) { c.Broken++ })
			r.emit(Event{At: now, Type: EventBroken, Key: key, Holder: c.Holder, Owner: c.Owner, Fence: c.Fence, For: c.Held, Reason: reason})
		}
	}
	for id, k := range r.known {
		if id.Key == key && len(tags) > 0 && tags[driver.Tag(id.Owner)] {
			k.ended, k.broken = true, true
		}
	}
	return claims, err
}

// isName reports whether a key belongs to a name of a user.
func isName(key string) bool {
	_, _, ok := names.Split(key)
	return ok
}

// remember stores a claim or waiter. If there are too many, those that are not seen any more make
// way; if none is, the new one is not remembered.
func (r *Recorder) remember(id driver.ID, k *known, now time.Time) {
	if len(r.known) >= maxKnown && now.Sub(r.pruned) > time.Second {
		r.pruned = now
		maps.DeleteFunc(r.known, func(_ driver.ID, old *known) bool { return now.After(old.ends) })
	}
	if len(r.known) >= maxKnown && r.known[id] == nil {
		return
	}
	r.known[id] = k
}

// count adds to all counters.
func (r *Recorder) count(now time.Time, add func(*counts)) {
	add(&r.total)
	add(r.hour.at(now))
	add(r.day.at(now))
}

// called records a call of the store.
func (r *Recorder) called(now time.Time, took time.Duration) {
	r.count(now, func(c *counts) {
		c.Calls++
		c.CallSum += took
		c.CallMax = max(c.CallMax, took)
	})
}

func (r *Recorder) emit(e Event) {
	r.events[r.next%maxEvents] = e
	r.next++
}

// Events returns the latest events, the last one first: at most n of those for which keep returns
// true.
func (r *Recorder) Events(n int, keep func(Event) bool) (out []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := r.next - 1; i >= 0 && i >= r.next-maxEvents; i-- {
		if e := r.events[i%maxEvents]; e.Type != "" && keep(e) {
			out = append(out, e)
		}
	}
	// A scan finds later that a lease has run out.
	slices.SortStableFunc(out, func(a, b Event) int { return b.At.Compare(a.At) })
	return out[:min(n, len(out))]
}
