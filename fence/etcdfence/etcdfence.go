// Package etcdfence guards keys in etcd by the lock itself, if the locks are in the same cluster
// (store/etcd): the condition "the claim of this lease is live" is a part of the caller's own
// transaction. A write that comes after the end of the claim changes nothing. No fencing token has
// to be remembered.
//
// The condition compares the claim that the store granted. Goroutines of one process that hand off
// a lock in memory have one claim: among them, a late write is not refused. Write with the lease
// that is held.
package etcdfence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/internal/etcdkey"
)

// span is the number of fences of a grant: see driver.Span.
const span = 128

// A Guard makes transactions under a lock.
type Guard struct {
	kv     clientv3.KV
	prefix string
}

// New returns a guard for the locks of a store with this prefix; "" means the default of
// store/etcd. The client is one of the cluster that has the locks.
func New(kv clientv3.KV, prefix string) (*Guard, error) {
	if kv == nil {
		return nil, errors.New("etcdfence: the client is nil")
	}
	return &Guard{kv: kv, prefix: cmp.Or(prefix, "distlock") + "/"}, nil
}

// Held returns the condition that the exclusive claim of a lease is live, for a transaction of the
// caller. The lease is a *distlock.Lease or a [fence.Proof].
func (g *Guard) Held(l fence.Lease) (clientv3.Cmp, error) {
	p, err := fence.Of(l)
	if err != nil {
		return clientv3.Cmp{}, err
	}
	// It holds if there is a claim, and if all claims have this revision. An exclusive claim is
	// alone.
	claims := etcdkey.Base(g.prefix, p.Name()) + etcdkey.Claims
	return clientv3.Compare(clientv3.CreateRevision(claims), "=", int64(p.Fence()/span)).
		WithRange(clientv3.GetPrefixRangeEnd(claims)), nil
}

// Do makes the operations in one transaction, if the exclusive claim of the lease is live.
// Otherwise the error is [fence.ErrStale], and nothing was changed. After any other error the
// outcome is unknown.
func (g *Guard) Do(ctx context.Context, l fence.Lease, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	held, err := g.Held(l)
	if err != nil {
		return nil, err
	}
	p, err := fence.Of(l)
	if err != nil {
		return nil, err
	}
	resp, err := g.kv.Txn(ctx).If(held).Then(ops...).Commit()
	switch {
	case err != nil:
		return nil, fmt.Errorf("etcdfence: %.64q: %w", strings.ToValidUTF8(p.Name(), "?"), err)
	case !resp.Succeeded:
		return nil, &fence.StaleError{Name: p.Name(), Fence: p.Fence()}
	}
	return resp, nil
}
