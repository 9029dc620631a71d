// Package mem is a store in the memory of one process. It is the reference that other
// stores are compared with, and the store for tests; it excludes nobody outside
// the process, and forgets everything with it.
//
// It has every feature of the contract, and reads no clock but time.Now, so it runs in
// virtual time in a testing/synctest bubble.
package mem

import (
	"cmp"
	"context"
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

// sweepStep is how many keys each Acquire looks at for something to forget. Two are
// enough: a call adds one key at most, so the idle ones always grow fewer.
const sweepStep = 2

// A Store keeps claims in memory. The zero Store is empty, and begins to count its age with its first call.
type Store struct {
	mu    sync.Mutex // guards all below
	born  time.Time  // its monotonic reading is where the store's clock begins
	keys  map[string]*key
	round []string // all of keys, in the order in which sweep looks at them
}

// New returns an empty store.
func New() *Store { return &Store{born: time.Now()} }

// Features declares everything.
func (s *Store) Features() driver.Features {
	return driver.Features{
		Name: "mem", Fence: true, Floor: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, AnyServer: true,
		// Attach works within the process, which is as far as the store itself reaches.
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
	at := slices.IndexFunc(k.line, func(p *claim) bool { return p.Owner == r.Owner })
	if !k.free(at, r) {
		return k.refuse(at, r, now), nil
	}
	fence := max(k.last+driver.Span, s.clock(now), r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	}
	k.last = fence
	if at >= 0 {
		k.line = slices.Delete(k.line, at, at+1)
	}
	r.Value, r.Meta = slices.Clone(r.Value), maps.Clone(r.Meta)
	k.claims = append(k.claims, &claim{Request: r, fence: k.last, since: now, ends: after(now, r.TTL)})
	k.wakeHead()
	return driver.Result{Granted: true, Fresh: true, Fence: k.last, Used: k.used(), Behind: len(k.line), Age: age(now)}, nil
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
		return len(k.line), nil // it came late: a record lives for as long as it was kept for
	}
	c.ends = after(now, r.TTL)
	if r.Value != nil {
		c.Value = slices.Clone(r.Value)
	}
	if r.Keep {
		c.kept = true
		k.wake(func(string) bool { return true }) // everybody may read the record
	}
	return len(k.line), nil
}

// Release ends a claim or gives up a place.
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
	before := len(k.claims) + len(k.line)
	held := len(k.claims)
	k.claims = slices.DeleteFunc(k.claims, mine)
	k.line = slices.DeleteFunc(k.line, mine)
	if len(k.claims)+len(k.line) == before {
		return driver.ErrNotHeld
	}
	if len(k.claims) < held {
		k.wakeOnlookers()
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
		delete(k.watches, w) // a key that is watched is not forgotten, so k is still the key's
	})
	return w.wake
}

// Show returns the claims on a key and its line.
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
	for _, c := range slices.Concat(k.claims, k.line) {
		out = append(out, c.tell(now))
	}
	return out, nil
}

// List yields the claims and lines of all keys with a prefix, in order of their names.
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
func (s *Store) Break(ctx context.Context, name string, upTo uint64, reason string) ([]driver.Claim, error) {
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
		out = append(out, c.tell(now))
		k.broken[c.Owner] = broken{reason, c.ends}
	}
	if len(out) == 0 {
		return nil, nil
	}
	k.claims = stay
	k.wakeOnlookers()
	k.wakeHead()
	return out, nil
}

// Inspect tells what the store is.
func (s *Store) Inspect(ctx context.Context) (driver.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return driver.Info{
		Identity: fmt.Sprintf("mem:%p", s),
		Age:      age(s.now()),
		Version:  "mem",
		Findings: []driver.Finding{{
			Level: driver.Warning,
			What:  "claims are kept in this process's memory",
			Means: "other processes are not excluded, and a restart forgets every claim",
			Cure:  "use a store that the processes share",
		}},
	}, ctx.Err()
}

// age is how old the store is; a store that was made just now is not of unknown age.
func age(now time.Duration) time.Duration { return max(now, 1) }

// now is the store's clock for TTLs. The lock is held.
func (s *Store) now() time.Duration {
	if s.born.IsZero() {
		s.born = time.Now()
	}
	return time.Since(s.born)
}

// after is when something ends that lives for life from now on. A life that the clock cannot
// hold ends with the clock, 292 years from the start.
func after(now, life time.Duration) time.Duration {
	return now + min(life, math.MaxInt64-now)
}

// clock is the store's clock for fences. It runs on the monotonic clock, so that it never goes back.
func (s *Store) clock(now time.Duration) uint64 {
	return uint64((s.born.UnixMicro() + now.Microseconds()))
}

// use returns what is known about a key, now, and remembers the key if it is new.
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

// peek returns what is known about a key, now, or nil if nothing is.
func (s *Store) peek(name string, now time.Duration) *key {
	k := s.keys[name]
	if k != nil {
		k.expire(now)
	}
	return k
}

// sweep forgets a few keys that are idle and whose last fence the clock has passed.
func (s *Store) sweep(now time.Duration) {
	for range min(sweepStep, len(s.round)) {
		name := s.round[0]
		s.round = s.round[1:]
		k := s.peek(name, now)
		idle := len(k.claims)+len(k.line)+len(k.watches)+len(k.broken) == 0
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
