// Package mem is a store in the memory of one process, for tests. It is also the reference
// implementation that other stores are compared with. It does not exclude other processes, and its
// claims end with the process.
//
// The store has every feature of the contract in package driver, fencing tokens included. It reads
// no clock but [time.Now], so it runs in virtual time in a testing/synctest bubble.
package mem

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// sweepStep is how many keys each Acquire and Watch examines and, if they are idle, removes. Two
// are enough: a call adds at most one key, so the number of idle keys always falls.
const sweepStep = 2

// A Store keeps claims in memory. The zero Store is empty and ready for use. Its age counts from
// its first call.
type Store struct {
	mu    sync.Mutex // guards all fields below
	born  time.Time  // its monotonic reading is the zero of the store's clock
	keys  map[string]*key
	round []string // the names of all keys, in the order in which sweep examines them
	id    string   // the identity; "" before the first Inspect
}

// New returns an empty store.
func New() *Store { return &Store{born: time.Now()} }

// Features declares every feature.
func (s *Store) Features() driver.Features {
	return driver.Features{
		Name: "mem", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, AnyServer: true,
		// Attach works within the process: the store reaches no further.
		Detached: true,
	}
}

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(s.Features())); err != nil {
		return driver.Result{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	k := s.use(r.Key, now)

	if r.Floor > max(s.clock(now), k.last)+driver.MaxAhead {
		return driver.Result{}, fmt.Errorf("%w: floor %d is more than an hour ahead", driver.ErrInvalid, r.Floor)
	}
	if c := find(k.claims, r.Owner); c != nil {
		return k.again(c, r, now), nil
	}
	at := slices.IndexFunc(k.queue, func(c *claim) bool { return c.Owner == r.Owner })
	if !k.free(at, r) {
		return k.refuse(at, r, now), nil
	}
	fence := max(k.last+driver.Span, s.clock(now), r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	}
	k.last = fence
	if at >= 0 {
		k.queue = slices.Delete(k.queue, at, at+1)
	}
	r.Value, r.Meta = slices.Clone(r.Value), maps.Clone(r.Meta)
	k.claims = append(k.claims, &claim{Request: r, fence: k.last, since: now, ends: after(now, r.TTL)})
	k.wakeHead()
	return driver.Result{Granted: true, Fresh: true, Fence: k.last, Used: k.used(), Behind: len(k.queue), Age: age(now)}, nil
}

// Renew gives a claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	if err := cmp.Or(ctx.Err(), r.Validate(s.Features())); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renew(r, s.now())
}

// RenewAll renews many claims at one instant.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i, r := range rs {
		if out[i].Err = cmp.Or(ctx.Err(), r.Validate(s.Features())); out[i].Err == nil {
			out[i].Behind, out[i].Err = s.renew(r, now)
		}
	}
	return out
}

func (s *Store) renew(r driver.Renewal, now time.Duration) (behind int, err error) {
	k := s.peek(r.Key, now)
	if k == nil {
		return 0, driver.ErrNotHeld
	}
	c := find(k.claims, r.Owner)
	if c == nil {
		if b, ok := k.broken[r.Owner]; ok {
			return 0, &driver.BrokenError{Reason: b.reason}
		}
		return 0, driver.ErrNotHeld
	}
	if c.kept && !r.Keep {
		return len(k.queue), nil // a late renewal: a record keeps its own TTL
	}
	c.ends = after(now, r.TTL)
	if r.Value != nil {
		c.Value = slices.Clone(r.Value)
	}
	if r.Keep {
		c.kept = true
		k.wake(func(string) bool { return true }) // all waiters may read the record
	}
	return len(k.queue), nil
}

// Release ends a claim or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.peek(id.Key, s.now())
	if k == nil {
		return driver.ErrNotHeld
	}
	mine := func(c *claim) bool { return c.Owner == id.Owner }
	before := len(k.claims) + len(k.queue)
	held := len(k.claims)
	k.claims = slices.DeleteFunc(k.claims, mine)
	k.queue = slices.DeleteFunc(k.queue, mine)
	if len(k.claims)+len(k.queue) == before {
		return driver.ErrNotHeld
	}
	if len(k.claims) < held {
		k.wakeObservers()
	}
	k.wakeHead()
	return nil
}

// Watch returns a channel that is ready when id may be granted.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	w := &watch{owner: id.Owner, wake: make(chan driver.Wake, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.use(id.Key, s.now())
	if k.watches == nil {
		k.watches = map[*watch]struct{}{}
	}
	k.watches[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(k.watches, w) // a watched key is not swept, so k is still in use
	})
	return w.wake
}

// Show returns the claims on a key and its queue.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	k := s.peek(key, now)
	if k == nil {
		return nil, nil
	}
	var out []driver.Claim
	for _, c := range slices.Concat(k.claims, k.queue) {
		out = append(out, c.describe(now))
	}
	return out, nil
}

// List yields the claims and queues of all keys with a prefix, in order of the keys.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		s.mu.Lock()
		names := slices.Sorted(maps.Keys(s.keys))
		s.mu.Unlock()
		for _, name := range names {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			claims, err := s.Show(ctx, name)
			if err != nil {
				yield(driver.Claim{}, err)
				return
			}
			for _, c := range claims {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// Break ends the claims on a key whose fence is at most upTo, or all of them if upTo is 0.
func (s *Store) Break(
	ctx context.Context, name string, upTo uint64, reason string,
) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	k := s.peek(name, now)
	if k == nil || len(k.claims) == 0 {
		return nil, nil
	}
	if k.broken == nil {
		k.broken = map[string]broken{}
	}
	var out []driver.Claim
	var stay []*claim
	for _, c := range k.claims {
		if upTo > 0 && c.fence > upTo {
			stay = append(stay, c)
			continue
		}
		out = append(out, c.describe(now))
		k.broken[c.Owner] = broken{reason, c.ends}
	}
	if len(out) == 0 {
		return nil, nil
	}
	k.claims = stay
	k.wakeObservers()
	k.wakeHead()
	return out, nil
}

// Inspect describes the store, and warns that its claims are in memory. The identity is random: no
// other store has it, in this process or in another.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == "" {
		s.id = "mem:" + rand.Text()
	}
	return driver.Info{
		Identity: s.id,
		Age:      age(s.now()),
		Version:  "mem",
		Findings: []driver.Finding{{
			Level: driver.LevelWarning,
			What:  "claims are kept in this process's memory",
			Means: "other processes are not excluded, and a restart forgets every claim",
			Cure:  "use a store that the processes share",
		}},
	}, ctx.Err()
}

// age returns the age of the store. It is never 0, which would mean an unknown age.
func age(now time.Duration) time.Duration { return max(now, 1) }

// now reads the store's clock for TTLs. The caller holds the lock.
func (s *Store) now() time.Duration {
	if s.born.IsZero() {
		s.born = time.Now()
	}
	return time.Since(s.born)
}

// after returns the end of a life that begins now. If the clock cannot represent it, after returns
// the end of the clock, 292 years from the start.
func after(now, life time.Duration) time.Duration {
	return now + min(life, math.MaxInt64-now)
}

// clock reads the store's clock for fences. It follows the monotonic clock, so it never goes back.
func (s *Store) clock(now time.Duration) uint64 {
	return uint64((s.born.UnixMicro() + now.Microseconds()))
}

// use returns the current state of a key, and adds the key if it is new.
func (s *Store) use(name string, now time.Duration) *key {
	s.sweep(now)
	k := s.peek(name, now)
	if k == nil {
		k = &key{}
		if s.keys == nil {
			s.keys = map[string]*key{}
		}
		s.keys[name] = k
		s.round = append(s.round, name)
	}
	return k
}

// peek returns the current state of a key, or nil if the store does not have the key.
func (s *Store) peek(name string, now time.Duration) *key {
	k := s.keys[name]
	if k != nil {
		k.expire(now)
	}
	return k
}

// sweep removes a few keys that are idle and whose last fence the clock has passed.
func (s *Store) sweep(now time.Duration) {
	for range min(sweepStep, len(s.round)) {
		name := s.round[0]
		s.round = s.round[1:]
		k := s.peek(name, now)
		idle := len(k.claims)+len(k.queue)+len(k.watches)+len(k.broken) == 0
		if idle && k.last+driver.Span <= s.clock(now) {
			delete(s.keys, name)
		} else {
			s.round = append(s.round, name)
		}
	}
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
