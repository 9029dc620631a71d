package etcd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/distlock/distlock/driver"
)

// A state is the claims and the queue of a name at one revision.
type state struct {
	revision int64
	claims   []*item // oldest first
	queue    []*item // in order
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

func (st *state) sort() {
	order := func(a, b *item) int { return cmp.Compare(a.kv.CreateRevision, b.kv.CreateRevision) }
	slices.SortFunc(st.claims, order)
	slices.SortFunc(st.queue, order)
}

// seen returns the state that a transaction read last.
func seen(k space, resp *pb.TxnResponse) *state {
	last := resp.Responses[len(resp.Responses)-1].GetResponseRange()
	return stateOf(k, resp.Header.Revision, last.Kvs)
}

// read returns the current state of a name.
func (s *Store) read(ctx context.Context, k space) (*state, error) {
	resp, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{all(k.base)}})
	if err != nil {
		return nil, err
	}
	return seen(k, resp), nil
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

// fits reports whether a claim of the owner can be granted now.
func (st *state) fits(owner string, weight, limit int64) bool {
	at := index(st.queue, owner)
	if at > 0 || at < 0 && len(st.queue) > 0 {
		return false
	}
	return st.used()+weight <= limit
}

// granted answers an owner that has the claim.
func (st *state) granted(c *item) driver.Result {
	return driver.Result{Granted: true, Fence: c.fence(), Used: st.used(), Behind: len(st.queue)}
}

// lookups is how many leases a refusal looks up for Result.Retry: the oldest, of which one usually
// ends first. workers is how many calls for one caller are on their way at a time.
const (
	lookups = 16
	workers = 16
)

// refused answers an owner that has to wait.
func (s *Store) refused(ctx context.Context, k space, st *state, r *driver.Request, owner string) driver.Result {
	at := index(st.queue, owner)
	res := driver.Result{Used: st.used(), Ahead: len(st.queue)}
	if at >= 0 {
		res.Ahead, res.Behind = at, len(st.queue)-at-1
	}
	blockers := st.queue[:res.Ahead]
	if res.Used+r.Weight > r.Limit {
		blockers = slices.Concat(st.claims, blockers)
	}
	blockers = blockers[:min(lookups, len(blockers))]
	left := s.left(ctx, blockers)
	for _, d := range left {
		// A lease ends up to a second after the number that the server returns.
		if d > 0 && (res.Retry == 0 || d+roundsUp < res.Retry) {
			res.Retry = d + roundsUp
		}
	}
	res.Blocker = blockers[0].describe(k.name, left[0])
	return res
}

// roundsUp is the half of the second that a server rounds down: see left.
const roundsUp = 500 * time.Millisecond

// left returns how long the leases of the items live: the whole seconds that the server returns, and
// half a second. 0 means that the server did not answer.
func (s *Store) left(ctx context.Context, items []*item) []time.Duration {
	out := make([]time.Duration, len(items))
	each(len(items), func(i int) {
		resp, err := s.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: items[i].kv.Lease})
		switch {
		case err != nil:
		case resp.TTL < 0:
			out[i] = 1 // it has ended, and its key is about to
		default:
			out[i] = time.Duration(resp.TTL)*time.Second + roundsUp
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
