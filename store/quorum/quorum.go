package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	defaultLongestTTL = time.Minute
	defaultNodeLimit  = 100 * time.Millisecond
)

// Options configure a [Store]. The zero value of each field is its default.
type Options struct {
	Name string // for messages and metrics; "quorum" by default

	// Nodes are the names of the nodes, in their order, for messages: such as host:port, without a
	// password. The default name of a node is its number and its kind: 1 (redis).
	Nodes []string

	// LongestTTL is the longest TTL of a claim, 60 s by default. A node that has forgotten its
	// claims does not count for this long. It must be the same in all programs: a shorter one
	// counts a node that has forgotten claims of the others.
	LongestTTL time.Duration

	// NodeLimit is how long a node may take to answer, 100 ms by default, and never more than a
	// tenth of the TTL: slow nodes must not use up the trust that the others give. A release, which
	// may have to wait until its acquire has ended, has twice as long. List, Break and Inspect have
	// ten times as long. Increase NodeLimit if nodes are far away: it should allow several round
	// trips.
	NodeLimit time.Duration
}

// A Store keeps claims on a majority of nodes. [New] makes one.
type Store struct {
	nodes    []driver.Store
	names    []string
	longest  time.Duration
	within   time.Duration // see Options.NodeLimit
	features driver.Features

	calls   calls
	claims  claims
	workers workers
	pace    atomic.Int64  // how long the last Acquire took, in nanoseconds
	fresh   atomic.Bool   // the deployment was new at the last Acquire: see count
	late    []atomic.Bool // by node: it answered its last Acquire after the limit

	mu     sync.Mutex // guards closed
	closed bool
	wg     sync.WaitGroup  // calls to this store and to nodes, and watches
	leave  func()          // wg.Done
	life   context.Context // of the watches
	end    context.CancelFunc
}

// New combines an odd number of nodes, three at least, into one store. Nodes must be independent:
// stores that copy from each other, or one store reached in two ways, are no majority. New refuses
// nodes that report the same identity. It accepts a node that it cannot reach now.
func New(ctx context.Context, nodes []driver.Store, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{
		nodes:   slices.Clone(nodes),
		late:    make([]atomic.Bool, len(nodes)),
		longest: cmp.Or(o.LongestTTL, defaultLongestTTL),
		within:  cmp.Or(o.NodeLimit, defaultNodeLimit),
	}
	switch n := len(nodes); {
	case n < 3:
		return nil, fmt.Errorf("quorum: %d nodes: a majority that survives the loss of one needs three: %w", n, driver.ErrInvalid)
	case n%2 == 0:
		return nil, fmt.Errorf("quorum: %d nodes: an even number needs a larger majority and survives no more losses: take %d: %w",
			n, n-1, driver.ErrInvalid)
	case s.longest < 0:
		return nil, fmt.Errorf("quorum: LongestTTL %v is negative: %w", s.longest, driver.ErrInvalid)
	case o.NodeLimit < 0, o.NodeLimit > s.longest/10:
		return nil, fmt.Errorf("quorum: NodeLimit %v is not above 0 and at most a tenth of LongestTTL, %v: %w",
			o.NodeLimit, s.longest/10, driver.ErrInvalid)
	case len(o.Nodes) > 0 && len(o.Nodes) != n:
		return nil, fmt.Errorf("quorum: %d names for %d nodes: %w", len(o.Nodes), n, driver.ErrInvalid)
	}
	s.names = slices.Clone(o.Nodes)
	if err := s.declare(cmp.Or(o.Name, "quorum")); err != nil {
		return nil, err
	}
	s.leave = s.wg.Done
	s.life, s.end = context.WithCancel(context.Background())
	if err := s.distinct(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// declare computes the features that all nodes have.
func (s *Store) declare(name string) error {
	f := driver.Features{
		Name: name, Fence: true, Value: true, Expiry: true, Detached: true,
		MaxTTL: s.longest, MaxTTLOption: "LongestTTL (lock_longest_ttl in a URL)",
	}
	for i, node := range s.nodes {
		if node == nil {
			return fmt.Errorf("quorum: node %d is nil: %w", i+1, driver.ErrInvalid)
		}
		n := node.Features()
		if len(s.names) <= i {
			s.names = append(s.names, fmt.Sprintf("%d (%s)", i+1, n.Name))
		}
		if !n.Expiry {
			return fmt.Errorf("quorum: node %s does not expire claims: %w", s.names[i], errors.ErrUnsupported)
		}
		f.Fence = f.Fence && n.Fence && n.Floor
		f.Value = f.Value && n.Value
		f.Detached = f.Detached && n.Detached
		f.MinTTL = max(f.MinTTL, n.MinTTL)
		if n.MaxTTL > 0 {
			f.MaxTTL = min(f.MaxTTL, n.MaxTTL)
			if f.MaxTTL < s.longest {
				f.MaxTTLOption = "" // a longer LongestTTL would not help
			}
		}
	}
	f.Floor = f.Fence
	s.features = f
	if f.MinTTL > f.MaxTTL {
		return fmt.Errorf("quorum: the nodes' shortest TTL of %v is above the longest of %v: %w",
			f.MinTTL, f.MaxTTL, driver.ErrInvalid)
	}
	return nil
}

// distinct refuses nodes that are the same store.
func (s *Store) distinct(ctx context.Context) error {
	infos := begin(ctx, s, s.adminLimit(), nil, func(ctx context.Context, i int) (driver.Info, error) {
		return driver.Inspect(ctx, s.nodes[i])
	}).all(ctx)
	for i := range s.nodes {
		for j := range i {
			same := together(infos[i], infos[j])
			if reflect.TypeOf(s.nodes[i]).Comparable() && s.nodes[i] == s.nodes[j] {
				same = sameStore
			}
			if same != "" {
				return fmt.Errorf("quorum: nodes %s and %s are %s: a majority needs nodes that fail independently: %w",
					s.names[j], s.names[i], same, driver.ErrInvalid)
			}
		}
	}
	return ctx.Err()
}

// Features returns the features that all nodes have, without queues, counting and records.
func (s *Store) Features() driver.Features { return s.features }

// majority returns how many nodes decide.
func (s *Store) majority() int { return len(s.nodes)/2 + 1 }

// limit returns how long a node may take for a call about a claim with a TTL.
func (s *Store) limit(ttl time.Duration) time.Duration { return min(s.within, ttl/10) }

// adminLimit returns how long a node may take for List, Break and Inspect, which people call.
func (s *Store) adminLimit() time.Duration { return 10 * s.within }

// enter registers a call that is under way. The caller calls leave at its end.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("quorum: the store is closed: %w", driver.ErrUnavailable)
	}
	s.wg.Add(1)
	return s.leave, nil
}

// Close ends all watches, and waits until no call to a node is under way. Later calls return
// [driver.ErrUnavailable]. Close does not close the nodes.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
	s.workers.close()
}

// Release releases a claim on all nodes. It returns when a majority has released it. In a new
// deployment, where all nodes must grant the next claim, it waits for all nodes. A node that does
// not answer keeps its part until the part expires. A new deployment grants nobody the key before.
// If a majority did not hold the claim, the claim was not held; the other nodes release their parts
// of it anyway.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var done, gone, down int
	votes := s.release(ctx, id, nil).until(ctx, func(votes []vote[struct{}]) bool {
		done, gone, down = 0, 0, 0
		for _, v := range votes {
			switch {
			case v.err == nil:
				done++
			case errors.Is(v.err, driver.ErrNotHeld):
				gone++
			case errors.Is(v.err, driver.ErrUnavailable):
				down++
			}
		}
		return done >= s.majority() && !s.fresh.Load() // if some do not have it, wait for all: see below
	})
	switch {
	case gone >= s.majority() && done == 0:
		return driver.ErrNotHeld
	case gone >= s.majority():
		// A node had the claim. It may have been the last of a majority until this release, whose
		// other calls arrived late; or the claim had ended and the node had a part of it.
		return s.failed(ctx, "release", describe(s, votes), errNoMajority)
	case done+gone >= s.majority():
		return nil // the nodes that may still have it are no majority
	case done == 0 && gone+down == len(votes):
		return s.failed(ctx, "release", describe(s, votes), driver.ErrUnavailable)
	default:
		return s.failed(ctx, "release", describe(s, votes), errNoMajority)
	}
}

// release forgets a claim and sends a release to all nodes. If of is not nil, it is a failed
// attempt, and only the nodes that may have granted it get a release.
func (s *Store) release(ctx context.Context, id driver.ID, of *attempt) *round[struct{}] {
	slots := s.calls.releases(id, len(s.nodes), of)
	s.claims.forget(id) // after the release is in the queues: see RenewAll
	// The slots keep the order: a release that overtakes its acquire releases nothing.
	return begin(ctx, s, 2*s.within, slots, func(ctx context.Context, i int) (struct{}, error) {
		if of != nil && !of.left(i) {
			return struct{}{}, nil
		}
		err := s.nodes[i].Release(ctx, id)
		if err != nil && !errors.Is(err, driver.ErrNotHeld) && !errors.Is(err, driver.ErrUnavailable) {
			s.calls.suspect(call{id, i}, s.longest)
		}
		return struct{}{}, err
	})
}

var _ interface {
	driver.AllRenewer
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
