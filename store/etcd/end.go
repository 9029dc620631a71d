package etcd

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
)

// Release ends a claim or removes a queue entry, in one transaction.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !valid(id.Key) || id.Owner == "" || len(id.Owner) > driver.MaxOwner {
		return driver.ErrNotHeld
	}
	k, owner := s.space(id.Key), hashOf(id.Owner)
	keys := []string{k.claim(owner), k.entry(owner)}
	resp, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{del(keys[0]), del(keys[1])}})
	if err != nil {
		return err
	}
	held := false
	for i, key := range keys {
		deleted := resp.Responses[i].GetResponseDeleteRange().Deleted > 0
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
	k := s.space(key)
	for range tries {
		st, err := s.read(ctx, k)
		if err != nil {
			return out, err
		}
		targets := slices.DeleteFunc(st.claims, func(c *item) bool { return upTo > 0 && c.fence() > upTo })
		if len(targets) == 0 {
			return out, nil
		}
		targets = targets[:min(breakMost, len(targets))]
		if f := s.smashing; f != nil {
			s.smashing = nil
			f()
		}
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
		if upTo == 0 && ended && len(st.claims) == len(targets) {
			return out, nil
		}
	}
	return out, nil
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
