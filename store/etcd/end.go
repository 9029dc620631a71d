package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
)

// longHold is how long a claim was held if its release looks for waiters first. The read costs less
// than a write, and a waiter that is granted its claim by the release needs no write of its own.
const longHold = 20 * time.Millisecond

// Release ends a claim or removes a queue entry, in one transaction. If others are known to wait
// for the claim, the head of the queue is granted its own at the same time.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !valid(id.Key) || id.Owner == "" || len(id.Owner) > driver.MaxOwner {
		return driver.ErrNotHeld
	}
	k, owner := s.space(id.Key), hashOf(id.Owner)
	r := &pb.TxnRequest{Success: []*pb.RequestOp{del(k.claim(owner)), del(k.entry(owner))}}
	only, push := k.push(s.waiters(ctx, k, owner), owner)
	s.interrupt()
	if push == nil && s.pool.of(k.claim(owner)) != nil { // the owner of a claim has no entry
		resp, err := s.remove(ctx, k.claim(owner))
		if err != nil || resp.Responses[0].GetResponseDeleteRange().Deleted > 0 {
			return s.released(k, owner, resp, err)
		}
	}
	resp, err := s.txn(ctx, &pb.TxnRequest{Compare: only, Success: append(r.Success, push...), Failure: r.Success})
	if errors.Is(err, driver.ErrUnavailable) && push != nil { // a full database deletes, and puts nothing
		resp, err = s.txn(ctx, r)
	}
	return s.released(k, owner, resp, err)
}

// waiters returns the state of a name whose claim is about to end, as far as it is known. If the
// read fails, the waiters are woken by the release.
func (s *Store) waiters(ctx context.Context, k space, owner string) *state {
	if st := s.watch.known(k.name); st != nil {
		return st
	}
	if !s.pool.heldLong(k.claim(owner)) {
		return &state{}
	}
	resp, err := s.txn(ctx, &pb.TxnRequest{Success: k.glance(owner)})
	if err != nil {
		return &state{}
	}
	return k.seen(resp)
}

// push returns the operations that grant the head of the queue its claim when the owner's has
// ended, and their conditions: no claim was changed since the state was read, and neither was the
// head's entry. The claim gets the lease of the entry, so it lives no longer.
func (k space) push(st *state, owner string) (only []*pb.Compare, ops []*pb.RequestOp) {
	i := index(st.claims, owner)
	if i < 0 || st.more > 0 || len(st.queue) == 0 {
		return nil, nil
	}
	st.claims = slices.Delete(st.claims, i, i+1)
	head := st.queue[0]
	if head.owner == owner || !st.fits(head.owner, head.Weight, head.Limit) {
		return nil, nil
	}
	rec := head.record
	rec.At = time.Now().UnixMicro()
	return []*pb.Compare{noneChanged(k.base+"c/", st.revision), unchanged(k.entry(head.owner), head.kv.ModRevision)},
		[]*pb.RequestOp{del(k.entry(head.owner)), put(k.claim(head.owner), rec.encode(), head.kv.Lease)}
}

// released reads the answer to a transaction that begins with the deletion of the owner's keys.
func (s *Store) released(k space, owner string, resp *pb.TxnResponse, err error) error {
	if err != nil {
		return err
	}
	held := false
	for i, key := range []string{k.claim(owner), k.entry(owner)} {
		deleted := i < len(resp.Responses) && resp.Responses[i].GetResponseDeleteRange().Deleted > 0
		held = held || deleted
		l := s.pool.forget(key, resp.Header.Revision)
		switch {
		case l == nil:
		case l.doubt:
			s.revoke(l.id) // a transaction that is still on its way fails then
		case deleted:
			s.give(l)
		}
	}
	if !held {
		return driver.ErrNotHeld
	}
	return nil
}

// valid reports whether a key can have claims.
func valid(key string) bool { return key != "" && len(key) <= driver.MaxKey }

const (
	// breakMost is how many claims one transaction breaks: each needs two operations of 128.
	breakMost = 60

	// noteSeconds is the longest life of a reason, and noteMost the longest reason in bytes.
	noteSeconds = 3600
	noteMost    = 4096
)

// Break ends the claims on a key whose fence is at most upTo, or all of them if upTo is 0. A
// transaction ends claims that were read, by the revisions that created them, and no later ones.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) (out []driver.Claim, err error) {
	if err := ctx.Err(); err != nil || !valid(key) {
		return nil, err
	}
	k, all := s.space(key), false
	for range tries {
		st, err := s.read(ctx, k)
		if err != nil {
			return out, err
		}
		if len(st.claims) == 0 {
			return out, nil
		}
		if upTo == 0 { // those of now: else short claims that come and go would protect the others
			upTo, all = st.claims[len(st.claims)-1].fence(), true
		}
		targets := slices.DeleteFunc(st.claims, func(c *item) bool { return c.fence() > upTo })
		if len(targets) == 0 {
			return out, nil
		}
		targets = targets[:min(breakMost, len(targets))]
		s.interrupt()
		left := s.left(ctx, targets)
		ended, err := s.smash(ctx, k, targets, reason[:min(noteMost, len(reason))])
		if err != nil {
			return out, err
		}
		for i, c := range targets {
			if ended {
				out = append(out, c.describe(key, left[i]))
			}
		}
		if all && ended && len(st.claims) == len(targets) {
			return out, nil
		}
	}
	return out, fmt.Errorf("etcd: other calls changed the claims %d times", tries)
}

// smash ends these claims if all of them are live, and leaves the reason for their holders.
func (s *Store) smash(ctx context.Context, k space, targets []*item, reason string) (ended bool, err error) {
	var seconds int64
	for _, c := range targets {
		if !c.Kept {
			seconds = max(seconds, min(c.Seconds, noteSeconds))
		}
	}
	var l *lease // of the reasons: nobody renews it
	if seconds > 0 {
		if l, err = s.grant(ctx, seconds); err != nil {
			return false, err
		}
	}
	r := &pb.TxnRequest{}
	for _, c := range targets {
		r.Compare = append(r.Compare, created(k.claim(c.owner), c.kv.CreateRevision))
		r.Success = append(r.Success, del(k.claim(c.owner)))
		if !c.Kept {
			r.Success = append(r.Success, put(k.note(c.owner), []byte(reason), l.id))
		}
	}
	resp, err := s.txn(ctx, r)
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}
