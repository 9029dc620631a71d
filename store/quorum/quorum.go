package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// nodeLimit is how long a node may take to answer; at most a tenth of the TTL, so that
	// slow nodes do not eat the trust that the others bring.
	nodeLimit = 100 * time.Millisecond

	// headStart is how far a proposed fence lies ahead of the client's clock. Nodes count by
	// their clocks too: a proposal above all of them is answered alike by all, in one round.
	headStart = uint64(time.Second / time.Microsecond)

	defaultLongestTTL = time.Minute
)

// Options change a Store. The zero value of a field stands for its default.
type Options struct {
	Name string // for messages and metrics; "quorum" by default

	// LongestTTL is the longest TTL that a claim may ask for, 60 s by default. A node that
	// has forgotten its claims is not counted for this long.
	LongestTTL time.Duration
}

// A Store keeps claims on a majority of nodes. Make one with New.
type Store struct {
	nodes    []driver.Store
	names    []string
	longest  time.Duration
	features driver.Features

	mu   sync.Mutex
	held map[driver.ID]*held // what was granted here, for top-ups
	seen map[string]uint64   // the highest fence of keys in held
	old  []driver.ID         // of held, in the order in which remember looks at them

	wg sync.WaitGroup // calls to nodes
}

// held is a claim that was granted here.
type held struct {
	r     driver.Request
	fence uint64
	asked []chan struct{} // by node: closed when it has answered the Acquire
	ends  time.Time       // by the local clock: when it is surely over
}

// New makes one store of an odd number of nodes, three at least. Nodes must be independent: stores that
// copy from each other, or one store reached in two ways, are no majority. Nodes that tell the same identity are refused;
// one that cannot be reached now is believed.
func New(ctx context.Context, nodes []driver.Store, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{nodes: nodes, longest: o.LongestTTL, held: map[driver.ID]*held{}, seen: map[string]uint64{}}
	if s.longest == 0 {
		s.longest = defaultLongestTTL
	}
	switch n := len(nodes); {
	case n < 3:
		return nil, fmt.Errorf("quorum: %d nodes: a majority that survives the loss of one needs three: %w", n, driver.ErrInvalid)
	case n%2 == 0:
		return nil, fmt.Errorf("quorum: %d nodes: an even number needs a larger majority and survives no more: take %d: %w", n, n-1, driver.ErrInvalid)
	case s.longest < 0:
		return nil, fmt.Errorf("quorum: LongestTTL %v is negative: %w", s.longest, driver.ErrInvalid)
	}
	s.features = driver.Features{
		Name: o.Name, Fence: true, Floor: true, Value: true, Expiry: true, Detached: true, MaxTTL: s.longest,
	}
	if s.features.Name == "" {
		s.features.Name = "quorum"
	}
	for i, node := range nodes {
		if node == nil {
			return nil, fmt.Errorf("quorum: node %d is nil: %w", i+1, driver.ErrInvalid)
		}
		f := node.Features()
		if !f.Expiry {
			return nil, fmt.Errorf("quorum: node %d (%s) does not end claims by itself: %w", i+1, f.Name, errors.ErrUnsupported)
		}
		s.names = append(s.names, fmt.Sprintf("%d (%s)", i+1, f.Name))
		s.features.Fence = s.features.Fence && f.Fence && f.Floor
		s.features.Value = s.features.Value && f.Value
		s.features.Detached = s.features.Detached && f.Detached
		s.features.MinTTL = max(s.features.MinTTL, f.MinTTL)
		if f.MaxTTL > 0 {
			s.features.MaxTTL = min(s.features.MaxTTL, f.MaxTTL)
		}
	}
	s.features.Floor = s.features.Fence
	return s, s.distinct(ctx)
}

// distinct refuses nodes that are one.
func (s *Store) distinct(ctx context.Context) error {
	infos := begin(ctx, s, 10*nodeLimit, func(ctx context.Context, i int) (driver.Info, error) {
		return driver.Inspect(ctx, s.nodes[i])
	}).votes(ctx, all)
	first := map[string]int{}
	for i, v := range infos {
		if v.err != nil || v.value.Identity == "" {
			continue
		}
		if j, ok := first[v.value.Identity]; ok {
			return fmt.Errorf("quorum: nodes %s and %s are one: a majority needs nodes that fail apart: %w", s.names[j], s.names[i], driver.ErrInvalid)
		}
		first[v.value.Identity] = i
	}
	return nil
}

// Features are those that all nodes have, without a line, counting and records.
func (s *Store) Features() driver.Features { return s.features }

// majority is how many nodes decide.
func (s *Store) majority() int { return len(s.nodes)/2 + 1 }

// limit is how long a node may take.
func limit(ttl time.Duration) time.Duration { return min(nodeLimit, ttl/10) }

// Renew renews a claim on all nodes. It counts if a majority truly renewed it; nodes that do
// not hold it are then topped up.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	out := s.RenewAll(ctx, []driver.Renewal{r})
	return out[0].Behind, out[0].Err
}

// RenewAll renews many claims with one round trip for each node, and another for those that are
// to be topped up.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	valid := make([]driver.Renewal, 0, len(rs))
	at := make([]int, 0, len(rs))
	least := s.longest
	for i, r := range rs {
		if out[i].Err = r.Validate(s.features); out[i].Err == nil {
			valid, at = append(valid, r), append(at, i)
			least = min(least, r.TTL)
		}
	}
	if len(valid) == 0 {
		return out
	}
	began := time.Now()
	votes := begin(ctx, s, limit(least), func(ctx context.Context, i int) ([]driver.Renewed, error) {
		return driver.RenewAll(ctx, s.nodes[i], valid), nil
	}).votes(ctx, all)
	for j, r := range valid {
		one := make([]vote[driver.Renewed], len(votes))
		for n, v := range votes {
			one[n].err = v.err
			if v.err == nil {
				one[n].value, one[n].err = v.value[j], v.value[j].Err
			}
		}
		out[at[j]] = s.renewed(ctx, r, one, began)
	}
	return out
}

// renewed counts the votes on one renewal.
func (s *Store) renewed(ctx context.Context, r driver.Renewal, votes []vote[driver.Renewed], began time.Time) driver.Renewed {
	good, gone, behind := 0, 0, 0
	var missing []int
	var broken error
	for n, v := range votes {
		switch {
		case v.err == nil:
			good++
			behind = max(behind, v.value.Behind)
		case errors.Is(v.err, driver.ErrNotHeld):
			gone++
			missing = append(missing, n)
			if b := (*driver.BrokenError)(nil); errors.As(v.err, &b) {
				broken = v.err
			}
		}
	}
	switch {
	case good >= s.majority():
		s.topUp(ctx, r, missing, began)
		return driver.Renewed{Behind: behind}
	case gone > len(s.nodes)-s.majority(): // no majority can hold it any more
		s.forget(r.ID)
		if broken != nil {
			return driver.Renewed{Err: broken}
		}
		return driver.Renewed{Err: &VoteError{Op: "renew", Votes: tell(s, votes), Err: driver.ErrNotHeld}}
	default:
		return driver.Renewed{Err: &VoteError{Op: "renew", Votes: tell(s, votes), Err: errNoMajority}}
	}
}

// topUp asks nodes that lost a claim to grant it again, so that it no longer hangs on a bare majority.
// Whether they do changes nothing in this round.
func (s *Store) topUp(ctx context.Context, r driver.Renewal, missing []int, began time.Time) {
	s.mu.Lock()
	h := s.held[r.ID]
	var req driver.Request
	if h != nil {
		h.ends = began.Add(2 * r.TTL)
		if r.Value != nil {
			h.r.Value = r.Value
		}
		req = h.r
		req.TTL = r.TTL
		if s.features.Fence {
			req.Floor = h.fence
		}
	}
	s.mu.Unlock()
	if h == nil || len(missing) == 0 {
		return
	}
	var wg sync.WaitGroup
	for _, n := range missing {
		wg.Go(func() {
			call, cancel := context.WithTimeout(ctx, limit(r.TTL))
			defer cancel()
			_, _ = s.nodes[n].Acquire(call, req)
		})
	}
	wg.Wait()
}

// Release releases a claim on all nodes. It is done when a majority has answered, and says
// ErrNotHeld if none of them held it.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	var asked []chan struct{}
	if h := s.forget(id); h != nil {
		asked = h.asked
	}
	votes := begin(ctx, s, nodeLimit, func(ctx context.Context, i int) (struct{}, error) {
		over(ctx, asked, i) // a release that overtakes its acquire releases nothing
		return struct{}{}, s.nodes[i].Release(ctx, id)
	}).votes(ctx, func(votes []vote[struct{}]) bool {
		done, gone := answered(votes)
		return done > 0 && done+gone >= s.majority()
	})
	done, gone := answered(votes)
	switch {
	case done+gone < s.majority():
		return &VoteError{Op: "release", Votes: tell(s, votes), Err: errNoMajority}
	case done == 0:
		return driver.ErrNotHeld
	}
	return nil
}

// answered counts the nodes that released the claim, and those that did not hold it.
func answered(votes []vote[struct{}]) (done, gone int) {
	for _, v := range votes {
		switch {
		case v.err == nil:
			done++
		case errors.Is(v.err, driver.ErrNotHeld):
			gone++
		}
	}
	return done, gone
}

// Close waits until no call to a node is under way. It closes no node.
func (s *Store) Close() { s.wg.Wait() }

// remember notes what was granted, and forgets a few that are over.
func (s *Store) remember(r driver.Request, fence uint64, asked []chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.held[r.ID] == nil {
		s.old = append(s.old, r.ID)
	}
	s.held[r.ID] = &held{r: r, fence: fence, asked: asked, ends: now.Add(2 * r.TTL)}
	s.seen[r.Key] = max(s.seen[r.Key], fence)
	for range min(2, len(s.old)) { // a call adds one, so those that are over always grow fewer
		id := s.old[0]
		s.old = s.old[1:]
		switch h := s.held[id]; {
		case h == nil:
		case h.ends.Before(now):
			s.drop(id)
		default:
			s.old = append(s.old, id)
		}
	}
}

// forget forgets a claim, and returns what was known of it.
func (s *Store) forget(id driver.ID) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[id]
	s.drop(id)
	return h
}

// drop forgets a claim, and its key's fence: nodes remember that. The lock is held.
func (s *Store) drop(id driver.ID) {
	delete(s.held, id)
	delete(s.seen, id.Key)
}
