package etcd

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/distlock/distlock/driver"
)

// many is the length from which a call does not read the whole queue: else n waiters would cost the
// server n times n.
const many = 16

// A state is the claims and the queue of a name at one revision.
type state struct {
	revision int64
	claims   []*item // oldest first
	queue    []*item // in order
	more     int     // how many entries of a long queue are not in queue, which then has any others
	part     bool    // nothing was read of the queue but the owner's entry: more is a least number
}

// stateOf reads the keys of a name.
func stateOf(k space, revision int64, kvs []*mvccpb.KeyValue) *state {
	st := &state{revision: revision}
	for _, kv := range kvs {
		if it := itemOf(k.base, kv); it != nil {
			st.add(it)
		}
	}
	st.sort()
	return st
}

func (st *state) add(it *item) {
	if it.waits {
		st.queue = append(st.queue, it)
	} else {
		st.claims = append(st.claims, it)
	}
}

// insert adds an item at its position.
func (st *state) insert(it *item) {
	list := &st.claims
	if it.waits {
		list = &st.queue
	}
	at, _ := slices.BinarySearchFunc(*list, it, order)
	*list = slices.Insert(*list, at, it)
}

func order(a, b *item) int { return cmp.Compare(a.kv.CreateRevision, b.kv.CreateRevision) }

func (st *state) sort() {
	slices.SortFunc(st.claims, order)
	slices.SortFunc(st.queue, order)
}

// glance reads a name for an owner: all claims, a short queue, of a long one a part, and the
// owner's entry. It is the end of a transaction, and seen returns the state.
func (k space) glance(owner string, before ...*pb.RequestOp) []*pb.RequestOp {
	some := all(k.base + "q/")
	some.GetRequestRange().Limit = many
	return append(before, all(k.base+"c/"), some, get(k.entry(owner)))
}

func (k space) seen(resp *pb.TxnResponse) *state {
	n := len(resp.Responses)
	claims, queue, own := resp.Responses[n-3].GetResponseRange(), resp.Responses[n-2].GetResponseRange(), resp.Responses[n-1].GetResponseRange()
	kvs, more := slices.Concat(claims.Kvs, queue.Kvs), int(queue.Count)-len(queue.Kvs)
	if len(own.Kvs) > 0 && !slices.ContainsFunc(queue.Kvs, func(kv *mvccpb.KeyValue) bool {
		return bytes.Equal(kv.Key, own.Kvs[0].Key)
	}) {
		kvs, more = append(kvs, own.Kvs[0]), more-1
	}
	st := stateOf(k, resp.Header.Revision, kvs)
	st.more = more
	return st
}

// brief reads of a name what does not grow with its queue: all claims, and the owner's entry. The
// server would count the entries of a part of the queue, too. It is the end of a transaction, and
// briefly returns the state, with the least length of the queue.
func (k space) brief(owner string, before ...*pb.RequestOp) []*pb.RequestOp {
	return append(before, all(k.base+"c/"), get(k.entry(owner)))
}

func (k space) briefly(resp *pb.TxnResponse, long int) *state {
	n := len(resp.Responses)
	claims, own := resp.Responses[n-2].GetResponseRange(), resp.Responses[n-1].GetResponseRange()
	st := stateOf(k, resp.Header.Revision, slices.Concat(claims.Kvs, own.Kvs))
	st.more, st.part = long, true
	return st
}

// read returns the current state of a name, with the whole queue.
func (s *Store) read(ctx context.Context, k space) (*state, error) {
	resp, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{all(k.base)}})
	if err != nil {
		return nil, err
	}
	return stateOf(k, resp.Header.Revision, resp.Responses[0].GetResponseRange().Kvs), nil
}

func (st *state) used() (n int64) {
	for _, c := range st.claims {
		n += c.Weight
	}
	return n
}

// index returns the position of an owner, or -1.
func index(items []*item, owner string) int {
	return slices.IndexFunc(items, func(it *item) bool { return it.owner == owner })
}

// length returns the length of the queue.
func (st *state) length() int { return len(st.queue) + st.more }

// fits reports whether a claim of the owner can be granted now. In a part of a long queue, the
// owner's entry is not the head.
func (st *state) fits(owner string, weight, limit int64) bool {
	at := index(st.queue, owner)
	if at > 0 || at < 0 && len(st.queue) > 0 || st.more > 0 {
		return false
	}
	return st.used()+weight <= limit
}

// granted answers an owner that has the claim.
func (st *state) granted(c *item) driver.Result {
	return driver.Result{Granted: true, Fence: c.fence(), Used: st.used(), Behind: st.length()}
}

// lookups is how many leases a refusal looks up for Result.Retry: the oldest, of which one usually
// ends first. workers is how many calls for one caller are on their way at a time.
const (
	lookups = 16
	workers = 16
)

// refused answers an owner that has to wait.
func (s *Store) refused(ctx context.Context, k space, st *state, r *driver.Request, owner string) driver.Result {
	res := driver.Result{Used: st.used(), Ahead: st.length()}
	blockers := st.queue
	if at := index(st.queue, owner); at >= 0 { // in a part of the queue, the last of all
		res.Ahead, res.Behind, blockers = at+st.more, len(st.queue)-at-1, blockers[:at]
	}
	if res.Used+r.Weight > r.Limit {
		blockers = slices.Concat(st.claims, blockers)
	}
	if st.more > 0 || res.Ahead > many { // the first blocker to end is not known, or does not matter yet
		res.Blocker = blockers[0].describe(k.name, 0)
		return res
	}
	blockers = blockers[:min(lookups, len(blockers))]
	left := s.left(ctx, blockers)
	for _, d := range left {
		// A lease ends up to a second after the number that the server returns. That of an
		// exclusive claim may end another second later: a waiter that is early waits again.
		if d > 0 && (res.Retry == 0 || d+roundsUp < res.Retry) {
			res.Retry = d + roundsUp
		}
	}
	res.Blocker = blockers[0].describe(k.name, left[0])
	return res
}

// roundsUp is the half of the second that a server rounds down: see left.
const roundsUp = 500 * time.Millisecond

// left returns how long the items live: the whole seconds of their leases that the server returns,
// and half a second, without the second that a lease is longer than its TTL. 0 means that the
// server did not answer.
func (s *Store) left(ctx context.Context, items []*item) []time.Duration {
	out := make([]time.Duration, len(items))
	each(len(items), func(i int) {
		resp, err := s.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: items[i].kv.Lease})
		switch {
		case err != nil:
		case resp.TTL < 0:
			out[i] = 1 // it has ended, and its key is about to
		default:
			out[i] = max(1, time.Duration(resp.TTL)*time.Second+roundsUp-items[i].slack())
		}
	})
	return out
}

// each calls f for 0 to n-1, several at a time.
func each(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for w := range min(workers, n) {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}
