package remote

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/message"
)

// batch prepares the batchers for a server that takes so many calls in one.
func (s *Store) batch(most int) {
	s.acquires.one = func(ctx context.Context, m *api.AcquireRequest) (*api.AcquireResponse, error) {
		return short(ctx, s, s.client.Acquire, m)
	}
	s.releases.one = func(ctx context.Context, id *api.ID) (*api.ReleaseResponse, error) {
		return short(ctx, s, s.client.Release, &api.ReleaseRequest{Id: id})
	}
	if most < 2 {
		return
	}
	s.acquires.most, s.acquires.size = most, func(m *api.AcquireRequest) int { return proto.Size(m) + perCall }
	s.acquires.all = func(ctx context.Context, ms []*api.AcquireRequest) ([]*api.AcquireResponse, []error) {
		m, err := short(ctx, s, s.client.AcquireAll, &api.AcquireAllRequest{Attempts: ms})
		return split(len(ms), m.GetAnswers(), err, func(one *api.Attempted) (*api.AcquireResponse, *api.Reason) {
			return one.GetAnswer(), one.GetReason()
		})
	}
	s.releases.most, s.releases.size = most, func(m *api.ID) int { return proto.Size(m) + perCall }
	s.releases.all = func(ctx context.Context, ids []*api.ID) ([]*api.ReleaseResponse, []error) {
		m, err := short(ctx, s, s.client.ReleaseAll, &api.ReleaseAllRequest{Ids: ids})
		return split(len(ids), m.GetAnswers(), err, func(one *api.Released) (*api.ReleaseResponse, *api.Reason) {
			return &api.ReleaseResponse{}, one.GetReason()
		})
	}
}

// perCall is how much longer a message becomes by a call, at most, besides the call itself.
const perCall = 8

// split returns the answers to n calls. An error of the message is that of each call, and an answer
// that is missing leaves the outcome unknown.
func split[M, A any](n int, ms []M, err error, one func(M) (*A, *api.Reason)) ([]*A, []error) {
	as, errs := make([]*A, n), make([]error, n)
	if err == nil && len(ms) != n {
		err = fmt.Errorf("remote: %d answers to %d calls", len(ms), n)
	}
	for i := range n {
		if errs[i] = err; err != nil {
			continue
		}
		a, reason := one(ms[i])
		switch {
		case reason != nil:
			errs[i] = message.ErrorOf(reason)
		case a == nil:
			errs[i] = fmt.Errorf("remote: no answer to call %d of %d", i+1, n)
		default:
			as[i] = a
		}
	}
	return as, errs
}
