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

// exampleStore is a complete store, as an example: claims, fences (fencing tokens) and a queue,
// in memory, under one mutex. It never waits, so it ignores ctx.
type exampleStore struct {
	mu    sync.Mutex // held during the whole call: a grant and its fence are one step
	keys  map[string]*exampleKey
	swept time.Time // when idle keys were last forgotten
}

// An exampleKey has the claims and the queue of one key, and the last fence, which outlives them.
type exampleKey struct {
	claims []*entry // oldest first
	queue  []*entry // in order of arrival
	last   uint64   // the highest fence of the key so far
}

// An entry is a claim, or a queue entry: then it has no fence.
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

	// An error means that the call changed nothing, so errors come first.
	clock := uint64(now.UnixMicro())
	if r.Floor > max(clock, k.last)+driver.MaxAhead {
		return driver.Result{}, fmt.Errorf("%w: floor too far ahead", driver.ErrInvalid)
	}

	// An owner that has the claim already lost the reply, or lowers its weight. It needs no
	// additional capacity and does not wait in the queue.
	if i := find(k.claims, r.Owner); i >= 0 {
		c := k.claims[i]
		c.until = now.Add(r.TTL)
		c.Weight = min(c.Weight, r.Weight)
		c.fence = max(c.fence, r.Floor)
		k.last = max(k.last, c.fence)
		return driver.Result{Granted: true, Fence: c.fence, Used: k.used(), Behind: len(k.queue)}, nil
	}

	// The entries before the owner's block it, even if there is capacity. Without capacity all
	// claims block it too, since the end of any of them may make capacity.
	ahead := find(k.queue, r.Owner)
	if ahead < 0 {
		ahead = len(k.queue)
	}
	blockers := k.queue[:ahead]
	if k.used()+r.Weight > r.Limit {
		blockers = slices.Concat(k.claims, blockers)
	}
	r.Meta, r.Value = maps.Clone(r.Meta), bytes.Clone(r.Value) // the caller may change its own
	if len(blockers) > 0 {
		return k.refused(r, now, ahead, blockers), nil
	}

	// When the clock has passed all fences of an idle key, the key can be forgotten. Until then
	// last counts: the clock may be set back, or a Floor may be ahead of the clock.
	fence := max(k.last+driver.Span, clock, r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: out of fences", driver.ErrUnavailable)
	}
	k.drop(func(e *entry) bool { return e.Owner == r.Owner }) // remove its queue entry
	k.claims = append(k.claims, &entry{Request: r, fence: fence, since: now, until: now.Add(r.TTL)})
	k.last = fence
	s.keys[r.Key] = k
	return driver.Result{Granted: true, Fence: fence, Used: k.used(), Behind: len(k.queue)}, nil
}

// refused adds or refreshes the queue entry, if there is a QueueTTL, and reports the blockers.
func (k *exampleKey) refused(r driver.Request, now time.Time, ahead int, blockers []*entry) driver.Result {
	if r.QueueTTL > 0 {
		if ahead == len(k.queue) { // it has no entry yet
			k.queue = append(k.queue, &entry{since: now})
		}
		// The entry holds the data of the last attempt.
		k.queue[ahead].Request, k.queue[ahead].until = r, now.Add(r.QueueTTL)
	}
	next := slices.MinFunc(blockers, func(a, b *entry) int { return a.until.Compare(b.until) })
	return driver.Result{Used: k.used(), Ahead: ahead, Behind: max(0, len(k.queue)-ahead-1),
		Retry: next.until.Sub(now), Blocker: blockers[0].claim(now)}
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
	return len(k.queue), nil
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

// open returns a key with only its live claims and entries, and the time. It is called with the
// mutex held: a time from before the wait for the mutex would make a TTL shorter.
func (s *exampleStore) open(key string) (*exampleKey, time.Time) {
	now := time.Now()
	expired := func(e *entry) bool { return !now.Before(e.until) }
	if now.Sub(s.swept) >= time.Minute { // nothing may be left behind for good
		s.swept = now
		maps.DeleteFunc(s.keys, func(_ string, k *exampleKey) bool {
			k.drop(expired)
			passed := now.Sub(time.UnixMicro(int64(k.last))) // since the clock passed last
			return len(k.claims)+len(k.queue) == 0 && passed > 10*time.Minute
		})
	}
	k := cmp.Or(s.keys[key], new(exampleKey)) // only a grant keeps a new one
	k.drop(expired)
	return k, now
}

// drop removes claims and queue entries. It does not change last: fences never decrease.
func (k *exampleKey) drop(which func(*entry) bool) bool {
	n := len(k.claims) + len(k.queue)
	k.claims, k.queue = slices.DeleteFunc(k.claims, which), slices.DeleteFunc(k.queue, which)
	return len(k.claims)+len(k.queue) < n
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

// claim returns the public view: the Tag of the owner, and copies of its data.
func (e *entry) claim(now time.Time) driver.Claim {
	return driver.Claim{
		Key: e.Key, Owner: driver.Tag(e.Owner), Weight: e.Weight, Limit: e.Limit,
		Fence: e.fence, Waiting: e.fence == 0, Held: now.Sub(e.since), Left: e.until.Sub(now),
		Holder: e.Holder, Task: e.Task, Meta: maps.Clone(e.Meta), Value: bytes.Clone(e.Value),
	}
}
