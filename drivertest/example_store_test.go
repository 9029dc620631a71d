package drivertest_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// exampleStore is a whole store, written to be read: claims, fences and a line,
// in memory, under one mutex. It never waits, so it has no need of ctx.
type exampleStore struct {
	mu    sync.Mutex // held for all of a call: a grant and its fence are one step
	keys  map[string]*exampleKey
	swept time.Time // when idle keys were last forgotten
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

func (s *exampleStore) Features() driver.Features {
	return driver.Features{Name: "example",
		Fence: true, Floor: true, Count: true, Queue: true, Value: true, Expiry: true}
}

func (s *exampleStore) Acquire(_ context.Context, r driver.Request) (driver.Result, error) {
	if err := r.Validate(s.Features()); err != nil {
		return driver.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, now := s.open(r.Key)

	// An error says that nothing was changed, so errors come first.
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
		return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.line)}, nil
	}

	// Whoever stands in line before the owner is in the way, even if there is room.
	// Without room all claims are too, since any that ends may make room.
	ahead := find(k.line, r.Owner)
	if ahead < 0 {
		ahead = len(k.line)
	}
	inTheWay := k.line[:ahead]
	if k.used()+r.Weight > r.Limit {
		inTheWay = slices.Concat(k.claims, inTheWay)
	}
	r.Meta, r.Value = maps.Clone(r.Meta), bytes.Clone(r.Value) // the caller may change its own
	if len(inTheWay) > 0 {
		return k.refused(r, now, ahead, inTheWay), nil
	}

	// The clock passes all fences of an idle key, which can then be forgotten. Until it
	// has, last counts: the clock may be set back, or a Floor may lie ahead of it.
	fence := max(k.last+driver.Span, clock, r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: out of fences", driver.ErrUnavailable)
	}
	k.drop(func(e *entry) bool { return e.Owner == r.Owner }) // its place is given up
	k.claims = append(k.claims, &entry{Request: r, fence: fence, since: now, until: now.Add(r.TTL)})
	k.last = fence
	s.keys[r.Key] = k
	return driver.Result{Granted: true, Fence: fence, Used: k.used(), Behind: len(k.line)}, nil
}

// refused keeps a place in line, if one is asked for, and tells what is in the way.
func (k *exampleKey) refused(r driver.Request, now time.Time, ahead int, inTheWay []*entry) driver.Result {
	if r.QueueTTL > 0 {
		if ahead == len(k.line) { // it has no place yet
			k.line = append(k.line, &entry{since: now})
		}
		// It stands for what was asked last.
		k.line[ahead].Request, k.line[ahead].until = r, now.Add(r.QueueTTL)
	}
	next := slices.MinFunc(inTheWay, func(a, b *entry) int { return a.until.Compare(b.until) })
	return driver.Result{Used: k.used(), Ahead: ahead, Behind: max(0, len(k.line)-ahead-1),
		Retry: next.until.Sub(now), Blocker: inTheWay[0].tell(now)}
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

// open returns a key with nothing on it but what is live, and the time. It is called
// under the mutex: a time from before the wait for it would make a TTL shorter.
func (s *exampleStore) open(key string) (*exampleKey, time.Time) {
	now := time.Now()
	over := func(e *entry) bool { return !now.Before(e.until) } // it has lived for all its TTL
	if now.Sub(s.swept) >= time.Minute {                        // nothing may be left behind for good
		s.swept = now
		maps.DeleteFunc(s.keys, func(_ string, k *exampleKey) bool {
			k.drop(over)
			passed := now.Sub(time.UnixMicro(int64(k.last))) // since the clock passed last
			return len(k.claims)+len(k.line) == 0 && passed > 10*time.Minute
		})
	}
	k := cmp.Or(s.keys[key], new(exampleKey)) // a grant keeps a new one, all else leaves no trace
	k.drop(over)
	return k, now
}

// drop ends claims and gives up places. It leaves last alone: fences never fall.
func (k *exampleKey) drop(which func(*entry) bool) bool {
	n := len(k.claims) + len(k.line)
	k.claims, k.line = slices.DeleteFunc(k.claims, which), slices.DeleteFunc(k.line, which)
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
		Holder: e.Holder, Task: e.Task, Meta: maps.Clone(e.Meta), Value: bytes.Clone(e.Value),
	}
}
