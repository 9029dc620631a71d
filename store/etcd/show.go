package etcd

import (
	"context"
	"iter"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/etcdkey"
)

// Show returns the claims on a key and its queue.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || !valid(key) {
		return nil, err
	}
	k := s.space(key)
	st, err := s.read(ctx, k)
	if err != nil {
		return nil, err
	}
	return s.describe(ctx, k.name, st), ctx.Err()
}

func (s *Store) describe(ctx context.Context, name string, st *state) []driver.Claim {
	items := slices.Concat(st.claims, st.queue)
	var out []driver.Claim
	for i, left := range s.left(ctx, items) {
		out = append(out, items[i].describe(name, left))
	}
	return out
}

// listPage is how many keys List reads at a time.
const listPage = 500

// List yields the claims and queues of all keys with a prefix, in pages.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		if err := s.list(ctx, prefix, func(c driver.Claim) bool { return yield(c, nil) }); err != nil {
			yield(driver.Claim{}, err)
		}
	}
}

// list calls yield for each claim until it returns false.
func (s *Store) list(ctx context.Context, prefix string, yield func(driver.Claim) bool) error {
	from, end := s.prefix+"k/"+etcdkey.Escape(prefix), after(s.prefix+"k/"+etcdkey.Escape(prefix))
	name, st := "", &state{} // of the name whose keys are being read
	flush := func() bool {
		st.sort()
		for _, c := range s.describe(ctx, name, st) {
			if !yield(c) {
				return false
			}
		}
		st = &state{}
		return true
	}
	for more := true; more; {
		resp, err := s.txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{{
			Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
				Key: []byte(from), RangeEnd: []byte(end), Limit: listPage,
			}},
		}}})
		if err != nil {
			return err
		}
		page := resp.Responses[0].GetResponseRange()
		for _, kv := range page.Kvs {
			escaped, _, _ := strings.Cut(string(kv.Key[len(s.prefix)+2:]), "/")
			next, err := etcdkey.Unescape(escaped)
			it := itemOf(s.prefix+"k/"+escaped+"/", kv)
			if err != nil || it == nil {
				continue // another program wrote it
			}
			if next != name && !flush() {
				return nil
			}
			name = next
			st.add(it)
		}
		if more = page.More && len(page.Kvs) > 0; more {
			from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		}
	}
	flush()
	return ctx.Err()
}
