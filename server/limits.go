package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

// Limits bound what one identity may do at one server, and what the server does at the same time.
// Renewals and releases have budgets of their own, so that a lease is not lost because its
// identity, or another one, makes too many other calls. The zero value of a field means its
// default, and a negative value no bound.
//
// A server counts what it sees itself: n servers allow n times as much, and the counts are lost
// with the process.
type Limits struct {
	Calls   int // calls a second of one identity, other than Renew and Release; default: no bound
	Keeps   int // calls of Renew and Release a second of one identity; default: no bound
	Waits   int // calls of one identity that wait for a lock; default 1,000
	Watches int // watches of one identity; default 10,000
	Claims  int // claims of one identity that were granted here and whose TTL has not ended; default 50,000
	Records int // results of Once, and as many passes of rate limits; default 50,000

	InFlight int // calls of the store at the same time, other than Renew and Release; default 128; one identity has half of it
	Lists    int // lists of the store at the same time; default 16; one identity has half of it
	Conns    int // connections; default 4,096
}

// withDefaults returns the limits with their defaults.
func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.Calls, -1}, {&l.Keeps, -1}, {&l.Waits, 1_000}, {&l.Watches, 10_000}, {&l.Claims, 50_000}, {&l.Records, 50_000},
		{&l.InFlight, 128}, {&l.Lists, 16}, {&l.Conns, 4_096},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return l
}

// The limits, as metrics name them.
const (
	limitCalls   = "calls"
	limitKeeps   = "keeps"
	limitWaits   = "waits"
	limitWatches = "watches"
	limitClaims  = "claims"
	limitRecords = "records"
	limitBusy    = "busy"
	limitConns   = "connections"
)

// A class of claims has a limit of its own.
type class int

const (
	held   class = iota
	record       // the result of Once
	pass         // of a rate limit
	classes
)

// usage is what one identity does at the moment.
type usage struct {
	mu             sync.Mutex
	calls, keeps   bucket
	waits, watches int
	claims         [classes]map[driver.ID]time.Time // until when each may live
	swept          [classes]time.Time
}

// A quota has the usage of all identities.
type quota struct {
	Limits
	limited func(ctx context.Context, limit string) // for the metrics

	mu     sync.Mutex
	all    map[string]*usage
	forgot time.Time
}

// manyIdentities is the number of identities from which on the idle ones are forgotten.
const manyIdentities = 1_024

func newQuota(l Limits, limited func(context.Context, string)) *quota {
	return &quota{Limits: l.withDefaults(), limited: limited, all: map[string]*usage{}}
}

// of returns the usage of the caller.
func (q *quota) of(ctx context.Context) *usage {
	name := access.FromContext(ctx).Name
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.all[name]
	if u == nil {
		if len(q.all) >= manyIdentities {
			q.forget()
		}
		now := time.Now()
		u = &usage{calls: newBucket(q.Calls, now), keeps: newBucket(q.Keeps, now)}
		q.all[name] = u
	}
	return u
}

// forget forgets identities that do nothing: their limits begin again, as they would by now.
func (q *quota) forget() {
	now := time.Now()
	if now.Sub(q.forgot) < time.Second {
		return
	}
	q.forgot = now
	for name, u := range q.all {
		if u.idle(now) {
			delete(q.all, name)
		}
	}
}

func (u *usage) idle(now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range classes {
		u.sweep(c, now)
		if len(u.claims[c]) > 0 {
			return false
		}
	}
	return u.waits == 0 && u.watches == 0 && now.Sub(u.calls.last) > time.Minute && now.Sub(u.keeps.last) > time.Minute
}

// call counts a call against the rate of the caller.
func (q *quota) call(ctx context.Context, keep bool) error {
	u := q.of(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	if keep {
		if !u.keeps.take(time.Now()) {
			return q.over(ctx, limitKeeps, "it may send %d renewals and releases a second", q.Keeps)
		}
	} else if !u.calls.take(time.Now()) {
		return q.over(ctx, limitCalls, "it may make %d calls a second", q.Calls)
	}
	return nil
}

// wait counts a call that waits for a lock, until done is called.
func (q *quota) wait(ctx context.Context) (done func(), err error) {
	u := q.of(ctx)
	return q.count(ctx, u, &u.waits, q.Waits, limitWaits, "%d of its calls wait already")
}

// watch counts a watch, until done is called.
func (q *quota) watch(ctx context.Context) (done func(), err error) {
	u := q.of(ctx)
	return q.count(ctx, u, &u.watches, q.Watches, limitWatches, "it has %d watches already")
}

func (q *quota) count(ctx context.Context, u *usage, n *int, most int, limit, why string) (func(), error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if most >= 0 && *n >= most {
		return nil, q.over(ctx, limit, why, most)
	}
	*n++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		*n--
	}, nil
}

// reserve counts a claim before the store grants it. The claim counts until settle, or until the
// end of its TTL if the outcome stays unknown.
func (q *quota) reserve(ctx context.Context, id driver.ID, c class, ttl time.Duration) (fresh bool, err error) {
	most, limit := q.Claims, limitClaims
	if c != held {
		most, limit = q.Records, limitRecords
	}
	u, now := q.of(ctx), time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.claims[c][id]; !known && most >= 0 && len(u.claims[c]) >= most {
		if u.sweep(c, now); len(u.claims[c]) >= most {
			return false, q.over(ctx, limit, "it has %d claims already", most)
		}
	}
	_, known := u.claims[c][id]
	u.set(id, c, now.Add(ttl+callLimit))
	return !known, nil
}

// holds notes that the caller holds a claim for a TTL from now on.
func (q *quota) holds(ctx context.Context, id driver.ID, c class, ttl time.Duration) {
	u, now := q.of(ctx), time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.set(id, c, now.Add(ttl))
}

// ends notes that a claim has ended, or was not granted.
func (q *quota) ends(ctx context.Context, id driver.ID) {
	u := q.of(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range classes {
		delete(u.claims[c], id)
	}
}

// totals returns the sums of all identities.
func (q *quota) totals() (waits, watches, claims int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for _, u := range q.all {
		u.mu.Lock()
		waits, watches = waits+int64(u.waits), watches+int64(u.watches)
		for c := range classes {
			u.sweep(c, now)
			claims += int64(len(u.claims[c]))
		}
		u.mu.Unlock()
	}
	return waits, watches, claims
}

// The methods below are called with u.mu held.

func (u *usage) set(id driver.ID, c class, end time.Time) {
	if u.claims[c] == nil {
		u.claims[c] = map[driver.ID]time.Time{}
	}
	u.claims[c][id] = end
}

// sweep removes claims whose TTL has ended. It looks at all of them, so it does that at most once a
// second.
func (u *usage) sweep(c class, now time.Time) {
	if now.Sub(u.swept[c]) < time.Second {
		return
	}
	u.swept[c] = now
	for id, end := range u.claims[c] {
		if now.After(end) {
			delete(u.claims[c], id)
		}
	}
}

// over returns the error of a caller that is over a limit. The call has changed nothing.
func (q *quota) over(ctx context.Context, limit, why string, most int) error {
	q.limited(ctx, limit)
	return message.Error(&api.Reason{
		Kind: api.Reason_KIND_LIMITED, Text: access.FromContext(ctx).Name + " is over a limit of this server: " + fmt.Sprintf(why, most),
	})
}

// A bucket allows a number of calls a second, and those of one second at once.
type bucket struct {
	rate, left float64
	last       time.Time
}

func newBucket(rate int, now time.Time) bucket {
	return bucket{rate: float64(rate), left: float64(rate), last: now}
}

// take takes one call out of the bucket.
func (b *bucket) take(now time.Time) bool {
	passed := now.Sub(b.last).Seconds()
	b.last = now
	if b.rate < 0 {
		return true
	}
	b.left = min(b.rate, b.left+passed*b.rate)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
