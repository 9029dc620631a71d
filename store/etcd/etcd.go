// Package etcd stores claims in an etcd cluster. Consensus decides every grant: a granted claim is
// on a majority of the members, and no failover loses it. Every grant has a fencing token, called
// fence, that grows.
//
// # Layout
//
// Every claim and every queue entry is one key with its own etcd lease, below a prefix:
//
//	distlock/k/NAME/c/OWNER    a claim
//	distlock/k/NAME/q/OWNER    a queue entry
//	distlock/b/NAME/OWNER      why a claim was broken
//
// NAME is escaped, so that no name is the beginning of another name. OWNER is a hash. The order of
// keys is the revision that created them. The fence of a claim is 128 times this revision. An
// acquire of a free name is one transaction, and a release is one delete. If others wait, the
// release is a transaction that grants the claim to the head of the queue.
//
// # Time
//
// A claim ends when etcd ends its lease. A lease lives for whole seconds, and at least for the
// minimum TTL of the server: 2 s, unless the election timeout was changed. So a TTL is rounded up.
// etcd looks for ended leases every half second. So a claim may live about a second longer than its
// TTL, and two seconds longer if it is exclusive and its TTL is 10 s or more: see slackFrom. A new
// leader gives every lease its full TTL again.
//
// A transaction of etcd cannot read a clock. So the store supports no Floor. [driver.Claim].Held is
// computed from the clocks of two clients, and no decision depends on it.
//
// # What is not guaranteed
//
// Fences fall if the cluster is restored from a backup without a higher revision (etcdutl snapshot
// restore --bump-revision), or is replaced by an empty cluster. Every user that may write the
// prefix can end every claim.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/gate"
	"github.com/distlock/distlock/internal/keeper"
)

const (
	defaultPrefix = "distlock"

	// leastTTL is the shortest lease of a server with the default election timeout.
	leastTTL = 2 * time.Second

	// mostSeconds is the longest lease of etcd, 285 years.
	mostSeconds = 9_000_000_000

	// tries is how often a call repeats a transaction that another one has overtaken. Each time, at
	// least one other call was served.
	tries = 64
)

// Options configure a store. The zero value of each field is its default.
type Options struct {
	// Prefix is the beginning of all keys of the store, without the slash that follows. The default
	// is "distlock". Stores with different prefixes never meet, unless one prefix is the beginning
	// of the other.
	Prefix string

	// MinTTL is the shortest TTL, in whole seconds. The default is 2 s, the least TTL of a server
	// with the default election timeout. If the server's is longer, claims live longer than their
	// TTL until MinTTL is set to it.
	MinTTL time.Duration
}

// A Store keeps claims in an etcd cluster.
type Store struct {
	client  *clientv3.Client
	kv      pb.KVClient
	leases  pb.LeaseClient
	prefix  string // ends in a slash
	feature driver.Features
	closer  func() // closes the client, if the store opened it

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	wg    sync.WaitGroup
	least atomic.Int64 // the least TTL of the server in seconds, as far as known

	beats  beats
	pool   pool
	watch  watches
	gates  gate.Gates // of attempts without a queue entry
	losers gate.Gates // of grants that another call has overtaken: else n of them overtake each other

	between func() // of tests: called once, between a read and the write that depends on it
}

// New returns a store on the cluster of a client. The store calls the server at the first call. It
// uses the connection of the client and not its fields KV, Lease and Watcher, so a client that has
// a namespace does not apply it: use [Options].Prefix. Close the store before the client.
func New(client *clientv3.Client, opt *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("etcd: the client is nil")
	}
	var o Options
	if opt != nil {
		o = *opt
	}
	o.Prefix = cmp.Or(o.Prefix, defaultPrefix)
	o.MinTTL = cmp.Or(o.MinTTL, leastTTL)
	if o.MinTTL < time.Second || o.MinTTL%time.Second != 0 {
		return nil, fmt.Errorf("etcd: the least TTL %v is not a number of whole seconds", o.MinTTL)
	}
	s := &Store{
		client: client, prefix: o.Prefix + "/", feature: features(o.MinTTL),
		kv: pb.NewKVClient(client.ActiveConnection()), leases: pb.NewLeaseClient(client.ActiveConnection()),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.least.Store(int64(o.MinTTL / time.Second))
	s.beats.store, s.watch.store, s.gates.Size = s, s, perKey
	s.pool.clock, s.pool.idle, s.pool.used = keeper.NewClock(), map[int64][]*lease{}, map[string]*lease{}
	s.watch.names, s.watch.pulse, s.watch.stream = map[string]*mirror{}, pulse, clientv3.NewWatcher(client)
	return s, nil
}

// Close ends the watches of the store and its stream of keep-alives. Claims stay as they are. The
// client of [New] stays open.
func (s *Store) Close() error {
	s.stop()
	s.wg.Wait()
	_ = s.watch.stream.Close()
	if s.closer != nil {
		s.closer()
	}
	return nil
}

// Features declares all features but Floor.
func (s *Store) Features() driver.Features { return s.feature }

func features(minTTL time.Duration) driver.Features {
	return driver.Features{
		Name: "etcd", Fence: true, Count: true, Queue: true, Value: true, Keep: true,
		Expiry: true, Detached: true, AnyServer: true,
		MinTTL: minTTL, MaxTTL: mostSeconds * time.Second,
	}
}

// slackFrom is the shortest TTL of an exclusive claim, in seconds, whose lease is a second longer.
// Within this second after a keep-alive, the lease needs no other one for the next claim. Shared
// claims have no such lease: a rate limit counts by their TTL.
const slackFrom = 10

// slack returns how much longer the lease of a claim is than its TTL.
func slack(weight, seconds int64) time.Duration {
	if weight == driver.Whole && seconds > slackFrom {
		return time.Second
	}
	return 0
}

// seconds returns the lease for a TTL: whole seconds, and no less than the server's least. The
// weight of a queue entry or a record is 0.
func (s *Store) seconds(ttl time.Duration, weight int64) int64 {
	n := int64(ttl / time.Second)
	if ttl%time.Second > 0 {
		n++
	}
	if weight == driver.Whole && n >= slackFrom {
		n++
	}
	return min(max(n, s.least.Load()), mostSeconds)
}

func (s *Store) interrupt() {
	if f := s.between; f != nil {
		s.between = nil
		f()
	}
}

// background runs f, which Close awaits.
func (s *Store) background(f func(ctx context.Context)) {
	const limit = 5 * time.Second
	if s.ctx.Err() != nil {
		return
	}
	s.wg.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, limit)
		defer cancel()
		f(ctx)
	})
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
