package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
)

const (
	// idleMost is how many leases of one length wait for their next claim. idleSeconds is the
	// longest of them: a longer one is revoked when its claim has ended, a shorter one ends by
	// itself.
	idleMost    = 64
	idleSeconds = 61

	// revokeLimit bounds the end of a lease.
	revokeLimit = time.Second
)

// A lease belongs to this store, which granted it. It has one claim or one queue entry at a time.
type lease struct {
	id, seconds int64
	end         time.Time     // it lives at least until then, counted from before the request was sent
	kept        time.Duration // when that request was sent, by the clock of the pool
	whole       bool          // it lives for the whole TTL of the call that has it, without a keep-alive
	doubt       bool          // a transaction with it has an unknown outcome: it never gets another claim
	since       int64         // the revision at which it got its key
	taken       time.Time     // when it got its key
}

// A pool has the leases of the store.
type pool struct {
	clock *keeper.Clock // a lease ends also while this host is suspended

	mu   sync.Mutex
	idle map[int64][]*lease // by their length
	used map[string]*lease  // by the key that has it, or that may have it
	next int                // the size of used at which it is swept

	ahead atomic.Bool // a lease for the next call is being granted
}

// take returns a lease without a key, for a claim of a weight. It needs a keep-alive unless it is
// whole. The weight of a queue entry is 0.
func (s *Store) take(ctx context.Context, seconds, weight int64) (*lease, error) {
	if l := s.pool.take(seconds, weight); l != nil {
		return l, nil
	}
	l, err := s.grant(ctx, seconds)
	if err == nil && l.seconds <= idleSeconds && s.pool.ahead.CompareAndSwap(false, true) {
		s.background(func(ctx context.Context) { // the next call finds a lease
			defer s.pool.ahead.Store(false)
			if l, err := s.grant(ctx, seconds); err == nil {
				s.give(l)
			}
		})
	}
	return l, err
}

// grant makes a new lease. An error is definite for the caller: no key has the lease.
func (s *Store) grant(ctx context.Context, seconds int64) (*lease, error) {
	began, kept := time.Now(), s.pool.clock.Now()
	var p peer.Peer
	id := rand.Int64N(1<<62) + 1
	resp, err := s.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: seconds}, grpc.Peer(&p))
	if err = outcome(ctx, err, p.Addr != nil); err != nil {
		if unknown(err) && seconds > idleSeconds {
			s.revoke(id)
		}
		if unknown(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		return nil, err
	}
	if resp.TTL > seconds { // the server's least TTL is higher
		s.least.Store(max(s.least.Load(), resp.TTL))
	}
	end := began.Add(time.Duration(resp.TTL) * time.Second)
	return &lease{id: resp.ID, seconds: resp.TTL, end: end, kept: kept, whole: true}, nil
}

// revoke ends a lease, and the key that has it, behind the caller. A Close that follows waits for
// it, but not for long: else each command with a long TTL would leave a lease for that TTL.
func (s *Store) revoke(id int64) {
	s.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeLimit)
		defer cancel()
		_, _ = s.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id}) // else it ends by itself
	})
}

// give returns a lease that has no key. No transaction with it may be on its way.
func (s *Store) give(l *lease) {
	if l == nil || l.doubt {
		return
	}
	if l.seconds > idleSeconds {
		s.revoke(l.id)
		return
	}
	s.pool.give(l)
}

func (p *pool) take(seconds, weight int64) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	for list := p.idle[seconds]; len(list) > 0; list = p.idle[seconds] {
		l := list[len(list)-1]
		p.idle[seconds] = list[:len(list)-1]
		// The keep-alive has to arrive before the end.
		if time.Until(l.end) > time.Duration(seconds)*time.Second/2 {
			l.whole = p.age(l) < slack(weight, seconds)
			return l
		}
	}
	return nil
}

// age returns how long ago the last keep-alive of a lease was sent, by the clock that counts most:
// of a suspend of this host, that of the pool knows only on Linux, and the time of day may be set.
func (p *pool) age(l *lease) time.Duration {
	byDay := time.Now().Round(0).Sub(l.end.Round(0)) + time.Duration(l.seconds)*time.Second
	return max(byDay, p.clock.Now()-l.kept)
}

func (p *pool) give(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.idle[l.seconds]; len(list) < idleMost {
		p.idle[l.seconds] = append(list, l)
	}
}

// drop forgets the idle leases of a length. One of them had ended before its time, as after a
// suspend of this host or in a new cluster, so the others may have ended too. Else each of them
// would cost the next call a transaction.
func (p *pool) drop(seconds int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.idle, seconds)
}

// keep records that a key got the lease by a revision, and returns the lease that has no key now:
// the one before, or the lease itself if a later transaction has already replaced it.
func (p *pool) keep(key string, l *lease, revision int64) (free *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.since, l.taken = revision, time.Now()
	free = p.used[key]
	if free != nil && free.since > revision {
		return l
	}
	p.used[key] = l
	if len(p.used) > p.next { // claims that nobody released
		for k, l := range p.used {
			if time.Since(l.end) > time.Duration(l.seconds)*time.Second {
				delete(p.used, k)
			}
		}
		p.next = 2*len(p.used) + 64
	}
	return free
}

// adopt records that a claim has the lease of its owner's entry, which was granted to the head of
// the queue.
func (p *pool) adopt(entry, claim string, kv *mvccpb.KeyValue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.used[entry]; l != nil && l.id == kv.Lease && p.used[claim] == nil {
		l.since, l.taken = kv.ModRevision, time.Now()
		delete(p.used, entry)
		p.used[claim] = l
	}
}

// heldLong reports whether a key has had its lease for longer than longHold.
func (p *pool) heldLong(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.used[key]
	return l != nil && time.Since(l.taken) > longHold
}

// of returns the lease of a key, or nil if the store does not know it.
func (p *pool) of(key string) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[key]
}

// since returns the revision at which a key got its lease, or 0 if the store does not know it.
func (p *pool) since(key string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.used[key]; l != nil {
		return l.since
	}
	return 0
}

// forget returns the lease of a key that is gone at a revision, or nil if the store does not know
// it.
func (p *pool) forget(key string, revision int64) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.used[key]
	if l == nil || l.since > revision {
		return nil // the owner has another claim meanwhile
	}
	delete(p.used, key)
	return l
}

// renewed records a keep-alive that succeeded.
func (p *pool) renewed(l *lease, b *beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := b.sent.Add(time.Duration(l.seconds) * time.Second); end.After(l.end) {
		l.end, l.kept = end, b.kept
	}
}

// A use is a lease during a transaction that gives it a key.
type use struct {
	store *Store
	*lease
	beat *beat
}

// commit makes a transaction that gives a lease the key, if it succeeds. A lease that is not whole
// gets a keep-alive at the same time, so that the key lives for the whole TTL, counted from before
// the call. The lease goes back if the transaction did not succeed.
func (s *Store) commit(ctx context.Context, l *lease, key string, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	u := use{store: s, lease: l}
	if !l.whole {
		u.beat = s.beats.send(l.id)
	}
	resp, err := s.txn(ctx, r)
	switch {
	case errors.Is(err, errNoLease):
		s.pool.drop(l.seconds)
		return nil, err
	case unknown(err):
		l.doubt = true
		s.pool.keep(key, l, 0) // a release ends it
		return nil, err
	case err != nil:
		s.give(l)
		return nil, err
	case !resp.Succeeded:
		s.give(l)
		return resp, nil
	}
	s.give(s.pool.keep(key, l, resp.Header.Revision))
	return resp, u.live(ctx)
}

// live returns an error unless the lease lives for its whole length from the beginning of the call.
func (u *use) live(ctx context.Context) error {
	if u.beat == nil {
		return nil
	}
	ttl, err := u.beat.wait(ctx)
	if err != nil {
		return fmt.Errorf("etcd: the claim is written, its keep-alive is not answered: %w", err)
	}
	if ttl <= 0 {
		return errors.New("etcd: the lease of the claim ended while it was written")
	}
	u.store.pool.renewed(u.lease, u.beat)
	return nil
}
