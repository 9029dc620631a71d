package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
)

// A look is what a renewal reads: the claim, the length of its queue, and why it was broken.
type look struct {
	revision int64
	claim    *item // nil: it has ended
	behind   int
	note     []byte // nil: it was not broken, as far as known
}

// A renewal is one Renew.
type renewal struct {
	*Store
	space
	r     *driver.Renewal
	owner string // the hash
	key   string // of the claim
	beat  *beat  // of the lease that the store knows; nil: it knows none
}

// Renew gives a claim a new TTL. If the TTL is as it was and there is no new value, this is a
// keep-alive, and at the same time a transaction that reads the claim: its key may have been
// deleted while its lease lives.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	if err := cmp.Or(ctx.Err(), r.Validate(s.feature)); err != nil {
		return 0, err
	}
	n := s.renewal(&r)
	looks, err := s.look(ctx, []*renewal{n})
	if err != nil {
		return 0, err
	}
	return n.finish(ctx, looks[0])
}

// lookOps is how many operations of a transaction read one claim, and lookMost how many claims one
// transaction reads: by default a server accepts 128 operations.
const (
	lookOps  = 3
	lookMost = 128 / lookOps
)

// RenewAll renews many claims, with one stream of keep-alives and one transaction for every 42
// claims.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	var all []*renewal
	var at []int // their positions in rs
	for i := range rs {
		if out[i].Err = cmp.Or(ctx.Err(), rs[i].Validate(s.feature)); out[i].Err == nil {
			all, at = append(all, s.renewal(&rs[i])), append(at, i)
		}
	}
	looks, errs := make([]look, len(all)), make([]error, len(all))
	each((len(all)+lookMost-1)/lookMost, func(part int) {
		from, to := part*lookMost, min(len(all), (part+1)*lookMost)
		got, err := s.look(ctx, all[from:to])
		copy(looks[from:to], got)
		for i := from; i < to; i++ {
			errs[i] = err
		}
	})
	each(len(all), func(i int) {
		if errs[i] == nil {
			out[at[i]].Behind, errs[i] = all[i].finish(ctx, looks[i])
		}
		out[at[i]].Err = errs[i]
	})
	return out
}

// renewal begins a renewal: the keep-alive is sent at once.
func (s *Store) renewal(r *driver.Renewal) *renewal {
	n := &renewal{Store: s, space: s.space(r.Key), r: r, owner: hashOf(r.Owner)}
	n.key = n.space.claim(n.owner)
	if l := s.pool.of(n.key); l != nil {
		n.beat = s.beats.send(l.id)
	}
	return n
}

// look reads the claims of some renewals.
func (s *Store) look(ctx context.Context, ns []*renewal) ([]look, error) {
	var ops []*pb.RequestOp
	for _, n := range ns {
		ops = append(ops, get(n.key), count(n.base+"q/"), get(n.note(n.owner)))
	}
	resp, err := s.txn(ctx, &pb.TxnRequest{Success: ops})
	if err != nil {
		return nil, err
	}
	looks := make([]look, len(ns))
	for i := range looks {
		l, got := &looks[i], resp.Responses[i*lookOps:]
		l.revision, l.behind = resp.Header.Revision, int(got[1].GetResponseRange().Count)
		if kvs := got[0].GetResponseRange().Kvs; len(kvs) > 0 {
			l.claim = itemOf(ns[i].base, kvs[0])
		}
		if kvs := got[2].GetResponseRange().Kvs; len(kvs) > 0 {
			l.note = kvs[0].Value
		}
	}
	return looks, nil
}

// finish renews the claim that was read, and reads it again if it was changed meanwhile.
func (n *renewal) finish(ctx context.Context, l look) (behind int, err error) {
	for range tries {
		if l.claim == nil {
			n.pool.forget(n.key, l.revision)
			if l.note != nil {
				return 0, &driver.BrokenError{Reason: string(l.note)}
			}
			return 0, driver.ErrNotHeld
		}
		if l.claim.Kept && !n.r.Keep {
			return l.behind, nil // a late renewal: a record keeps its own TTL
		}
		done, err := n.write(ctx, l.claim)
		if done || err != nil && !errors.Is(err, errNoLease) {
			return l.behind, err
		}
		looks, err := n.look(ctx, []*renewal{n})
		if err != nil {
			return 0, err
		}
		l = looks[0]
	}
	return 0, fmt.Errorf("%w: etcd: other calls changed the claim %d times", driver.ErrUnavailable, tries)
}

// write gives the claim c its new life: by a keep-alive, or by a transaction that moves it to
// another lease or gives it another value. It reports false if the claim was changed or has ended.
// A record always gets another lease, since late renewals of the claim may keep the old one alive.
func (n *renewal) write(ctx context.Context, c *item) (done bool, err error) {
	weight := c.Weight
	if n.r.Keep {
		weight = 0
	}
	seconds, rec, id := n.seconds(n.r.TTL, weight), c.record, c.kv.Lease
	if c.Seconds == seconds && !n.r.Keep {
		if alive, err := n.extend(ctx, id); err != nil || !alive {
			return false, err
		}
		if n.r.Value == nil {
			return true, nil
		}
	}
	rec.Kept = rec.Kept || n.r.Keep
	if n.r.Value != nil {
		rec.Value = n.r.Value
	}
	var moved *lease
	switch {
	case n.r.Keep:
		moved, err = n.grant(ctx, seconds)
	case c.Seconds != seconds:
		moved, err = n.take(ctx, seconds, weight)
	}
	if err != nil {
		return false, err
	}
	if moved != nil {
		rec.Seconds, id = moved.seconds, moved.id
	}
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{unchanged(n.key, c.kv.ModRevision)},
		Success: []*pb.RequestOp{put(n.key, rec.encode(), id)},
	}
	var resp *pb.TxnResponse
	if moved != nil {
		resp, err = n.commit(ctx, moved, n.key, r)
	} else {
		resp, err = n.txn(ctx, r)
	}
	if err != nil {
		return false, err
	}
	if n.r.Keep && resp.Succeeded {
		n.pool.forget(n.key, resp.Header.Revision) // no renewal keeps the record alive
	}
	return resp.Succeeded, nil
}

// extend keeps the claim's lease alive, with the keep-alive that was sent already if that is for
// it.
func (n *renewal) extend(ctx context.Context, id int64) (alive bool, err error) {
	one := n.beat
	n.beat = nil // a second one needs a new request
	if one == nil || one.id != id {
		return n.Store.extend(ctx, n.key, id)
	}
	ttl, err := one.wait(ctx)
	if l := n.pool.of(n.key); err == nil && ttl > 0 && l != nil && l.id == id {
		n.pool.renewed(l, one)
	}
	return ttl > 0, err
}
