package etcd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
)

// An attempt is one Acquire.
type attempt struct {
	*Store
	space
	r            *driver.Request
	owner        string // the hash
	claim, entry string // the keys
	seconds      int64  // of the claim's lease
	long         int    // the least length of a long queue, by the watch of this process; 0: not known
}

// perKey is how many attempts on one key without a queue entry a process makes at a time. A
// thousand of them would delay the keep-alives of those that wait, and their entries would end.
const perKey = 32

// Acquire grants or refuses a claim. A free name costs one transaction.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(s.feature)); err != nil {
		return driver.Result{}, err
	}
	a := &attempt{Store: s, space: s.space(r.Key), r: &r, owner: hashOf(r.Owner), seconds: s.seconds(r.TTL, r.Weight)}
	a.claim, a.entry = a.space.claim(a.owner), a.space.entry(a.owner)
	if s.pool.of(a.entry) == nil { // it may have to join the queue
		leave, err := s.gates.Enter(ctx, r.Key)
		if err != nil { // nothing was sent
			return driver.Result{}, fmt.Errorf("%w: etcd: %w", driver.ErrUnavailable, err)
		}
		defer leave()
	}
	a.long = s.watch.long(r.Key)
	res, st, err := a.first(ctx)
	alone := false // it passed the gate of those that another call has overtaken
	for range tries {
		switch {
		case errors.Is(err, errNoLease): // it ended before the transaction, which changed nothing
			st, err = s.read(ctx, a.space)
			continue
		case err != nil || st == nil:
			return res, err
		case st.more > 0 && index(st.queue, a.owner) >= 0, // the position of its entry is not known
			st.part && st.used()+r.Weight <= r.Limit: // it is not known whether others are before it
			st, err = s.read(ctx, a.space)
			continue
		}
		if i := index(st.claims, a.owner); i >= 0 {
			res, st, err = a.again(ctx, st, st.claims[i])
		} else if st.fits(a.owner, r.Weight, r.Limit) {
			res, st, err = a.grant(ctx, st)
			if !alone && err == nil && st != nil {
				leave, err := s.losers.Enter(ctx, r.Key)
				if err != nil {
					return driver.Result{}, fmt.Errorf("etcd: %w", err)
				}
				defer leave()
				alone = true
			}
		} else {
			res, st, err = a.wait(ctx, st)
		}
	}
	if err == nil {
		err = fmt.Errorf("%w: etcd: other calls changed the key %d times", driver.ErrUnavailable, tries)
	}
	return driver.Result{}, err
}

// The steps of an attempt return an answer, or the state that another step has to decide about.

// first grants a free name. An owner that has a queue entry only reads the state, unless its watch
// has reported that it is due, or that many others are before it.
func (a *attempt) first(ctx context.Context) (res driver.Result, next *state, err error) {
	if l := a.pool.of(a.entry); l != nil {
		if next = a.watch.due(a); next != nil {
			return res, next, nil
		}
		if refusal, blocker := a.watch.far(a, l); blocker != nil {
			if alive, err := a.extend(ctx, a.entry, l.id); err != nil || alive {
				refusal.Blocker = blocker.describe(a.name, 0)
				return refusal, nil, err
			}
		}
		next, err = a.read(ctx, a.space)
		return res, next, err
	}
	if a.long > 0 { // the name is not free: no lease is needed to find that out
		if next = a.watch.blocked(a); next != nil {
			return res, next, nil
		}
		resp, err := a.txn(ctx, &pb.TxnRequest{Success: a.look()})
		if err != nil {
			return res, nil, err
		}
		return res, a.seen(resp), nil
	}
	l, err := a.take(ctx, a.seconds, a.r.Weight)
	if err != nil {
		return res, nil, err
	}
	resp, err := a.commit(ctx, l, a.claim, &pb.TxnRequest{
		Compare: []*pb.Compare{absent(a.base)},
		Success: []*pb.RequestOp{put(a.claim, a.record(l), l.id)},
		Failure: a.look(),
	})
	if err != nil {
		return res, nil, err
	}
	if !resp.Succeeded {
		return res, a.seen(resp), nil
	}
	return driver.Result{
		Granted: true, Fresh: true, Fence: fenceOf(resp.Header.Revision), Used: a.r.Weight,
	}, nil, nil
}

// look reads the name at the end of a transaction, and seen returns what it read.

func (a *attempt) look(before ...*pb.RequestOp) []*pb.RequestOp {
	if a.long > 0 {
		return a.brief(a.owner, before...)
	}
	return a.glance(a.owner, before...)
}

func (a *attempt) seen(resp *pb.TxnResponse) *state {
	if a.long > 0 {
		return a.briefly(resp, a.long)
	}
	return a.space.seen(resp)
}

// record returns the value of a new claim.
func (a *attempt) record(l *lease) []byte {
	return recordOf(a.r, l.seconds, time.Now().UnixMicro()).encode()
}

// grant makes a claim that fits. The transaction fails if a claim was added or changed since the
// state was read, or if the owner's position is not what it was: capacity that appeared meanwhile
// does no harm.
func (a *attempt) grant(ctx context.Context, st *state) (res driver.Result, next *state, err error) {
	if fenceOf(st.revision+1) > driver.MaxFence-driver.Span {
		return res, nil, fmt.Errorf("%w: etcd: no fences are left", driver.ErrUnavailable)
	}
	l, err := a.take(ctx, a.seconds, a.r.Weight)
	if err != nil {
		return res, nil, err
	}
	first := noneCreated(a.base+"q/", st.revision)
	if i := index(st.queue, a.owner); i >= 0 {
		first = created(a.entry, st.queue[i].kv.CreateRevision)
	}
	resp, err := a.commit(ctx, l, a.claim, &pb.TxnRequest{
		Compare: []*pb.Compare{noneChanged(a.base+"c/", st.revision), first},
		Success: a.look(put(a.claim, a.record(l), l.id), del(a.entry)),
		Failure: a.look(),
	})
	if err != nil {
		return res, nil, err
	}
	st = a.seen(resp)
	if !resp.Succeeded {
		return res, st, nil
	}
	a.give(a.pool.forget(a.entry, resp.Header.Revision))
	res = st.granted(st.claims[index(st.claims, a.owner)])
	res.Fresh = true
	return res, nil, nil
}

// again answers an owner that has the claim c: with a full TTL, and the lower weight.
func (a *attempt) again(ctx context.Context, st *state, c *item) (res driver.Result, next *state, err error) {
	a.pool.adopt(a.entry, a.claim, c.kv)
	rec, id := c.record, c.kv.Lease
	rec.Weight = min(rec.Weight, a.r.Weight)
	var l *lease
	switch {
	case c.Kept: // a record keeps its own TTL
	case c.Seconds != a.seconds:
		if l, err = a.take(ctx, a.seconds, a.r.Weight); err != nil {
			return res, nil, err
		}
		rec.Seconds, id = l.seconds, l.id
	default:
		if alive, err := a.extend(ctx, a.claim, id); err != nil || !alive {
			return a.lost(ctx, err)
		}
	}
	if rec.Weight == c.Weight && l == nil {
		return st.granted(c), nil, nil
	}
	st, ok, err := a.replace(ctx, l, a.claim, unchanged(a.claim, c.kv.ModRevision), put(a.claim, rec.encode(), id))
	if err != nil || !ok {
		return res, st, err
	}
	return st.granted(st.claims[index(st.claims, a.owner)]), nil, nil
}

// replace writes the key of a claim or of an entry, on a new lease l or on the one it has. It
// returns the state after that, or the current one if the condition did not hold.
func (a *attempt) replace(
	ctx context.Context, l *lease, key string, only *pb.Compare, write *pb.RequestOp,
) (st *state, ok bool, err error) {
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{only},
		Success: a.look(write),
		Failure: a.look(),
	}
	var resp *pb.TxnResponse
	if l != nil {
		resp, err = a.commit(ctx, l, key, r)
	} else {
		resp, err = a.txn(ctx, r)
	}
	if err != nil {
		return nil, false, err
	}
	return a.seen(resp), resp.Succeeded, nil
}

// lost reads the state again after a lease has ended.
func (a *attempt) lost(ctx context.Context, err error) (driver.Result, *state, error) {
	if err != nil {
		return driver.Result{}, nil, err
	}
	st, err := a.read(ctx, a.space)
	return driver.Result{}, st, err
}

// wait refuses the claim, and adds or refreshes the owner's queue entry.
func (a *attempt) wait(ctx context.Context, st *state) (res driver.Result, next *state, err error) {
	if a.r.QueueTTL > 0 {
		joined, ok, err := a.join(ctx, st)
		if err != nil || !ok {
			return res, joined, err
		}
		// A claim may have ended since the state was read, before the entry was there to be woken.
		if index(joined.claims, a.owner) >= 0 || joined.fits(a.owner, a.r.Weight, a.r.Limit) ||
			joined.part && joined.used()+a.r.Weight <= a.r.Limit {
			return res, joined, nil
		}
		st = joined
	}
	return a.refused(ctx, a.space, st, a.r, a.owner), nil, nil
}

// join adds the owner's entry to the queue, or refreshes it at its position. It returns the state
// after that, or the current one if the owner has a claim or its entry has ended.
func (a *attempt) join(ctx context.Context, st *state) (next *state, ok bool, err error) {
	seconds, now := a.Store.seconds(a.r.QueueTTL, 0), time.Now().UnixMicro()
	i := index(st.queue, a.owner)
	if i < 0 {
		l, err := a.take(ctx, seconds, 0)
		if err != nil {
			return nil, false, err
		}
		return a.replace(ctx, l, a.entry, created(a.claim, 0), put(a.entry, recordOf(a.r, l.seconds, now).encode(), l.id))
	}
	e := st.queue[i]
	rec, id := recordOf(a.r, seconds, e.At).encode(), e.kv.Lease
	var l *lease
	if e.Seconds != seconds {
		if l, err = a.take(ctx, seconds, 0); err != nil {
			return nil, false, err
		}
		id = l.id
	} else if alive, err := a.extend(ctx, a.entry, id); err != nil || !alive {
		_, next, err = a.lost(ctx, err)
		return next, false, err
	}
	if l == nil && bytes.Equal(rec, e.kv.Value) {
		return st, true, nil
	}
	next, ok, err = a.replace(ctx, l, a.entry, created(a.entry, e.kv.CreateRevision), put(a.entry, rec, id))
	if err == nil && ok && next.more > 0 {
		next, err = a.read(ctx, a.space)
	}
	return next, ok, err
}

// extend keeps the lease of a key alive, and reports whether it lives.
func (s *Store) extend(ctx context.Context, key string, id int64) (alive bool, err error) {
	one := s.beats.send(id)
	ttl, err := one.wait(ctx)
	if err != nil {
		return false, err
	}
	if l := s.pool.of(key); ttl > 0 && l != nil && l.id == id {
		s.pool.renewed(l, one)
	}
	return ttl > 0, nil
}
