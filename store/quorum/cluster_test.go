package quorum_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/quorum"
)

// options describe a cluster.
type options struct {
	nodes   int
	fresh   bool            // they have just been created
	latency time.Duration   // the longest of a request or a reply
	clocks  []time.Duration // how far the nodes' clocks are ahead
	trouble func(c *cluster)
	apart   bool // the clocks are so far apart that nodes return different fences for one claim
	plan    chaos.Plan
	store   *quorum.Options
}

// A cluster is a store, its nodes, and its links to them.
type cluster struct {
	store *quorum.Store
	links []*chaos.Store
	nodes []*node
}

// open creates a cluster in a bubble, and closes it when the test ends.
func open(t testing.TB, o options) *cluster {
	t.Helper()
	c := &cluster{nodes: newNodes(o.nodes, o.clocks)}
	if !o.fresh {
		time.Sleep(3 * time.Minute) // until they are all old enough to count
	}
	c.join(t, "client", o)
	if o.trouble != nil {
		o.trouble(c)
	}
	return c
}

func newNodes(n int, clocks []time.Duration) []*node {
	nodes := make([]*node, n)
	for i := range nodes {
		nodes[i] = newNode()
		if i < len(clocks) {
			nodes[i].ahead = clocks[i]
		}
	}
	return nodes
}

// join links a new client to the nodes.
func (c *cluster) join(t testing.TB, name string, o options) {
	t.Helper()
	stores := make([]driver.Store, len(c.nodes))
	c.links = make([]*chaos.Store, len(c.nodes))
	plan := o.plan
	plan.Latency = o.latency
	for i, n := range c.nodes {
		c.links[i] = chaos.New(n, &chaos.Options{Name: fmt.Sprint(name, "-", i), Plan: plan})
		stores[i] = c.links[i]
	}
	s, err := quorum.New(t.Context(), stores, o.store)
	if err != nil {
		t.Fatal(err)
	}
	c.store = s
	t.Cleanup(func() {
		for _, l := range c.links {
			l.Close()
		}
		s.Close()
	})
}

// peer returns another client of the same nodes.
func (c *cluster) peer(t testing.TB, name string, o options) *cluster {
	t.Helper()
	p := &cluster{nodes: c.nodes}
	p.join(t, name, o)
	return p
}

// holds counts the nodes that hold a claim.
func (c *cluster) holds(id driver.ID) (n int) {
	for _, node := range c.nodes {
		if node.claim(id) != nil {
			n++
		}
	}
	return n
}

// A node is a store in memory that can forget all its claims. Its clock for fences may be wrong:
// all fences that it returns are shifted by ahead.
type node struct {
	ahead time.Duration

	mu       sync.Mutex
	inner    *mem.Store
	acquires int // Acquire calls that arrived
}

func newNode() *node { return &node{inner: mem.New()} }

// restart makes the node forget everything.
func (n *node) restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inner = mem.New()
}

// acquired returns how many Acquire calls have arrived.
func (n *node) acquired() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.acquires
}

func (n *node) store() *mem.Store {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.inner
}

// claim finds an owner's claim.
func (n *node) claim(id driver.ID) *driver.Claim {
	cs, err := n.Show(context.Background(), id.Key)
	if err != nil {
		panic(err)
	}
	for _, c := range cs {
		if c.Owner == driver.Tag(id.Owner) {
			return &c
		}
	}
	return nil
}

func (n *node) Features() driver.Features { return n.store().Features() }

func (n *node) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	n.mu.Lock()
	n.acquires++
	n.mu.Unlock()
	return shifted{n.store(), n.ahead}.Acquire(ctx, r)
}

func (n *node) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	return n.store().Renew(ctx, r)
}

func (n *node) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	return n.store().RenewAll(ctx, rs)
}

func (n *node) Release(ctx context.Context, id driver.ID) error { return n.store().Release(ctx, id) }

func (n *node) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return n.store().Watch(ctx, id)
}

func (n *node) Inspect(ctx context.Context) (driver.Info, error) { return n.store().Inspect(ctx) }

func (n *node) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	cs, err := n.store().Show(ctx, key)
	for i := range cs {
		cs[i].Fence = shift(cs[i].Fence, n.ahead)
	}
	return cs, err
}

func (n *node) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		for c, err := range n.store().List(ctx, prefix) {
			c.Fence = shift(c.Fence, n.ahead)
			if !yield(c, err) {
				return
			}
		}
	}
}

func (n *node) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	cs, err := n.store().Break(ctx, key, shift(upTo, -n.ahead), reason)
	for i := range cs {
		cs[i].Fence = shift(cs[i].Fence, n.ahead)
	}
	return cs, err
}

// shifted is a store whose fences are all higher by some time: for its clients, its clock is ahead.
// A client that uses it as its only store behaves as if its own clock were behind.
type shifted struct {
	driver.Store
	by time.Duration
}

func (s shifted) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	r.Floor = shift(r.Floor, -s.by)
	res, err := s.Store.Acquire(ctx, r)
	res.Fence = shift(res.Fence, s.by)
	res.Blocker.Fence = shift(res.Blocker.Fence, s.by)
	if res.Fence > driver.MaxFence-driver.Span {
		return driver.Result{}, errors.Join(driver.ErrUnavailable, s.Release(ctx, r.ID))
	}
	return res, err
}

// shift moves a fence by some time. 0, which is no fence, stays 0.
func shift(fence uint64, by time.Duration) uint64 {
	if fence == 0 {
		return 0
	}
	return uint64(max(1, int64(fence)+by.Microseconds()))
}

func exclusive(key string, ttl time.Duration) driver.Request {
	return driver.Request{
		ID: driver.ID{Key: key, Owner: rand.Text()}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl,
	}
}

func isUnavailable(err error) bool { return errors.Is(err, driver.ErrUnavailable) }
