package drivertest_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// exampleStore is a whole store, written to be read: claims, fences and a line,
// in memory, under one mutex. It has none of the optional verbs: whoever is
// refused asks again after Result.Retry. It never waits, so it needs no ctx.
type exampleStore struct {
	mu    sync.Mutex // held for all of a call: a grant and its fence are one step
	keys  map[string]*exampleKey
	swept time.Time
}

// An exampleKey is what stands on one key, and the fence that outlives it.
type exampleKey struct {
	claims []*entry // oldest first
	line   []*entry // places, in order of arrival
	last   uint64   // the highest fence that the key has seen
}

// An entry is a claim, or a place in line: then it has no fence.
type entry struct {
	driver.Request
	fence        uint64
	since, until time.Time
}

func newExampleStore() *exampleStore {
	return &exampleStore{keys: make(map[string]*exampleKey)}
}

func (s *exampleStore) Features() driver.Features {
	return driver.Features{
		Name:  "example",
		Fence: true, Floor: true, Count: true, Queue: true, Value: true, Expiry: true,
		MinTTL: time.Millisecond,
	}
}

func (s *exampleStore) Acquire(_ context.Context, r driver.Request) (driver.Result, error) {
	if err := r.Validate(s.Features()); err != nil {
		return driver.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, now := s.open(r.Key)

	// An error leaves everything as it was, so it comes before any change.
	clock := uint64(now.UnixMicro())
	if r.Floor > max(clock, k.last)+driver.MaxAhead {
		return driver.Result{}, fmt.Errorf("%w: floor too far ahead", driver.ErrInvalid)
	}

	// Whoever has the claim lost the answer, or lowers its weight. It takes
	// nothing new, so it needs no room and the line does not concern it.
	if i := find(k.claims, r.Owner); i >= 0 {
		c := k.claims[i]
		c.until = now.Add(r.TTL)
		c.Weight = min(c.Weight, r.Weight)
		c.fence = max(c.fence, r.Floor)
		k.last = max(k.last, c.fence)
		return k.granted(c), nil
	}

	place := find(k.line, r.Owner)
	ahead := place
	if place < 0 {
		ahead = len(k.line) // without a place, everyone in line goes first
	}
	room := k.used()+r.Weight <= r.Limit
	r.Meta, r.Value = maps.Clone(r.Meta), bytes.Clone(r.Value) // the caller's own
	if !room || ahead > 0 {
		return k.refused(r, now, place, ahead, room), nil
	}

	// The clock lets an idle key be forgotten: by then it is above all fences that
	// the key had. Span above last is for a clock that stands still, is set back,
	// or was overtaken by a Floor.
	fence := max(k.last+driver.Span, clock, r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: out of fences", driver.ErrUnavailable)
	}
	c := &entry{Request: r, fence: fence, since: now, until: now.Add(r.TTL)}
	k.drop(func(e *entry) bool { return e.Owner == r.Owner }) // its place is given up
	k.claims = append(k.claims, c)
	k.last = fence
	s.keys[r.Key] = k
	return k.granted(c), nil
}

func (k *exampleKey) granted(c *entry) driver.Result {
	return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.line)}
}

// refused tells what is in the way, and keeps a place in line if asked to.
func (k *exampleKey) refused(r driver.Request, now time.Time, place, ahead int, room bool) driver.Result {
	inTheWay := k.line[:ahead]
	if !room { // any claim that ends may make room
		inTheWay = slices.Concat(k.claims, inTheWay)
	}
	next := slices.MinFunc(inTheWay, func(a, b *entry) int { return a.until.Compare(b.until) })
	res := driver.Result{Used: k.used(), Ahead: ahead, Retry: next.until.Sub(now), Blocker: inTheWay[0].tell(now)}

	if r.Place > 0 {
		if place < 0 {
			place = len(k.line)
			k.line = append(k.line, &entry{Request: r, since: now})
		}
		k.line[place].until = now.Add(r.Place)
	}
	if place >= 0 {
		res.Behind = len(k.line) - place - 1
	}
	return res
}

func (s *exampleStore) Renew(_ context.Context, r driver.Renewal) (behind int, err error) {
	if err := r.Validate(s.Features()); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, now := s.open(r.Key)
	i := find(k.claims, r.Owner)
	if i < 0 {
		return 0, driver.ErrNotHeld
	}
	k.claims[i].until = now.Add(r.TTL)
	if r.Value != nil { // an empty value is a value
		k.claims[i].Value = bytes.Clone(r.Value)
	}
	return len(k.line), nil
}

func (s *exampleStore) Release(_ context.Context, id driver.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := s.open(id.Key)
	if !k.drop(func(e *entry) bool { return e.Owner == id.Owner }) {
		return driver.ErrNotHeld
	}
	return nil
}

// open returns a key with nothing on it but what is live, and the time. The time
// is read under the mutex: read before a wait for it, it would shorten a TTL.
func (s *exampleStore) open(key string) (*exampleKey, time.Time) {
	now := time.Now()
	over := func(e *entry) bool { return !now.Before(e.until) }
	if now.Sub(s.swept) >= time.Minute {
		s.swept = now
		for name, k := range s.keys {
			k.drop(over)
			passed := now.Sub(time.UnixMicro(int64(k.last)))
			if len(k.claims)+len(k.line) == 0 && passed > 10*time.Minute {
				delete(s.keys, name) // the clock is above its fences now
			}
		}
	}
	k := s.keys[key]
	if k == nil {
		return new(exampleKey), now // Acquire keeps it if it grants
	}
	k.drop(over)
	return k, now
}

// drop ends claims and gives up places. It leaves last alone: fences never fall.
func (k *exampleKey) drop(which func(*entry) bool) bool {
	n := len(k.claims) + len(k.line)
	k.claims = slices.DeleteFunc(k.claims, which)
	k.line = slices.DeleteFunc(k.line, which)
	return len(k.claims)+len(k.line) < n
}

func (k *exampleKey) used() (sum int64) {
	for _, c := range k.claims {
		sum += c.Weight
	}
	return sum
}

func find(entries []*entry, owner string) int {
	return slices.IndexFunc(entries, func(e *entry) bool { return e.Owner == owner })
}

// tell returns what others may know: the Tag of the owner, and copies.
func (e *entry) tell(now time.Time) driver.Claim {
	return driver.Claim{
		Key: e.Key, Owner: driver.Tag(e.Owner), Weight: e.Weight, Limit: e.Limit,
		Fence: e.fence, Waiting: e.fence == 0, Held: now.Sub(e.since), Left: e.until.Sub(now),
		Holder: e.Holder, Party: e.Party, Meta: maps.Clone(e.Meta), Value: bytes.Clone(e.Value),
	}
}
