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
)

const (
	// idleMost is how many leases of one length wait for their next claim. idleSeconds is the
	// longest of them: a longer one is revoked when its claim has ended, a shorter one ends by
	// itself.
	idleMost    = 64
	idleSeconds = 60
)

// A lease belongs to this store, which granted it. It has one claim or one queue entry at a time.
type lease struct {
	id, seconds int64
	end         time.Time // it lives at least until then, counted from before the request was sent
	fresh       bool      // granted for the call that has it
	doubt       bool      // a transaction with it has an unknown outcome: it never gets another claim
	since       int64     // the revision at which it got its key
	taken       time.Time // when it got its key
}

// A pool has the leases of the store.
type pool struct {
	mu   sync.Mutex
	idle map[int64][]*lease // by their length
	used map[string]*lease  // by the key that has it, or that may have it
	next int                // the size of used at which it is swept

	ahead atomic.Bool // a lease for the next call is being granted
}

// take returns a lease without a key. A lease that was not granted in this call needs a keep-alive.
func (s *Store) take(ctx context.Context, seconds int64) (*lease, error) {
	if l := s.pool.take(seconds); l != nil {
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
	began := time.Now()
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
	return &lease{id: resp.ID, seconds: resp.TTL, end: began.Add(time.Duration(resp.TTL) * time.Second), fresh: true}, nil
}

// revoke ends a lease, and the key that has it, behind the caller.
func (s *Store) revoke(id int64) {
	s.background(func(ctx context.Context) {
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

func (p *pool) take(seconds int64) *lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	for list := p.idle[seconds]; len(list) > 0; list = p.idle[seconds] {
		l := list[len(list)-1]
		p.idle[seconds] = list[:len(list)-1]
		// The keep-alive has to arrive before the end.
		if time.Until(l.end) > time.Duration(seconds)*time.Second/2 {
			l.fresh = false
			return l
		}
	}
	return nil
}

func (p *pool) give(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if list := p.idle[l.seconds]; len(list) < idleMost {
		p.idle[l.seconds] = append(list, l)
	}
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

// renewed records a keep-alive that was sent at a time and succeeded.
func (p *pool) renewed(l *lease, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if end := sent.Add(time.Duration(l.seconds) * time.Second); end.After(l.end) {
		l.end = end
	}
}

// A use is a lease during a transaction that gives it a key.
type use struct {
	store *Store
	*lease
	beat *beat
}

// commit makes a transaction that gives a lease the key, if it succeeds. A lease that was not
// granted in this call gets a keep-alive at the same time, so that the key lives for the whole TTL,
// counted from before the call. The lease goes back if the transaction did not succeed.
func (s *Store) commit(ctx context.Context, l *lease, key string, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	u := use{store: s, lease: l}
	if !l.fresh {
		u.beat = s.beats.send(l.id)
	}
	resp, err := s.txn(ctx, r)
	switch {
	case errors.Is(err, errNoLease):
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
	u.store.pool.renewed(u.lease, u.beat.sent)
	return nil
}
