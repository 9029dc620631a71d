package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

const (
	// maxRenewals is the number of claims that one call may renew.
	maxRenewals = 500

	// maxCalls is the number of attempts, or of releases, in one call. The store has to give a slot
	// to each, and the answer comes with that to the slowest.
	maxCalls = 64
)

// A service is the service distlock.v1.Store. Each of its calls is one call of the store, with the
// deadline of the caller or callLimit, whichever is earlier. It adds no meaning.
type service struct{ *Server }

var _ api.StoreHandler = (*service)(nil)

// Features returns the features of the store.
func (s *service) Features(context.Context, *api.FeaturesRequest) (*api.FeaturesResponse, error) {
	m := message.Features(s.store.Features())
	m.MaxCalls = maxCalls
	return m, nil
}

// Acquire grants or refuses a claim.
func (s *service) Acquire(ctx context.Context, m *api.AcquireRequest) (*api.AcquireResponse, error) {
	if s.drained.Err() != nil {
		return nil, draining()
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.acquire(ctx, m)
}

func (s *service) acquire(ctx context.Context, m *api.AcquireRequest) (*api.AcquireResponse, error) {
	res, err := s.store.Acquire(ctx, message.RequestOf(m))
	return answer(err, func() *api.AcquireResponse { return message.Result(res) })
}

// AcquireAll grants or refuses claims.
func (s *service) AcquireAll(ctx context.Context, m *api.AcquireAllRequest) (*api.AcquireAllResponse, error) {
	if s.drained.Err() != nil {
		return nil, draining()
	}
	out := &api.AcquireAllResponse{Answers: make([]*api.Attempted, len(m.GetAttempts()))}
	err := s.each(ctx, len(out.Answers), false, func(ctx context.Context, i int, err error) {
		var a *api.AcquireResponse
		if err == nil {
			a, err = s.acquire(ctx, m.GetAttempts()[i])
		}
		out.Answers[i] = &api.Attempted{Answer: a, Reason: message.ReasonOf(err)}
	})
	return out, err
}

// ReleaseAll ends claims, or removes queue entries.
func (s *service) ReleaseAll(ctx context.Context, m *api.ReleaseAllRequest) (*api.ReleaseAllResponse, error) {
	out := &api.ReleaseAllResponse{Answers: make([]*api.Released, len(m.GetIds()))}
	err := s.each(ctx, len(out.Answers), true, func(ctx context.Context, i int, err error) {
		if err == nil {
			_, err = s.release(ctx, m.GetIds()[i])
		}
		out.Answers[i] = &api.Released{Reason: message.ReasonOf(err)}
	})
	return out, err
}

// each makes n calls of one request at the same time. Each counts against the rate of the caller;
// the request has counted as the first. The function gets a ctx with the limit of a call, and the
// error of a call over the rate.
func (s *service) each(ctx context.Context, n int, keep bool, f func(ctx context.Context, i int, err error)) error {
	if n < 1 || n > maxCalls {
		return failure(fmt.Errorf("%w: %d calls in one are not 1 to %d", driver.ErrInvalid, n, maxCalls))
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var calls sync.WaitGroup
	for i := 1; i < n; i++ {
		err := s.op.quota.call(ctx, keep)
		calls.Go(func() { f(ctx, i, err) })
	}
	f(ctx, 0, nil)
	calls.Wait()
	return nil
}

// Renew renews claims.
func (s *service) Renew(ctx context.Context, m *api.RenewRequest) (*api.RenewResponse, error) {
	if n := len(m.GetRenewals()); n > maxRenewals {
		return nil, failure(fmt.Errorf("%w: %d renewals in one call are over %d", driver.ErrInvalid, n, maxRenewals))
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	rs := make([]driver.Renewal, len(m.GetRenewals()))
	for i, r := range m.GetRenewals() {
		rs[i] = message.RenewalOf(r)
	}
	out := &api.RenewResponse{}
	for _, r := range driver.RenewAll(ctx, s.store, rs) {
		renewed := &api.Renewed{Behind: int64(r.Behind)}
		if r.Err != nil {
			renewed.Reason = message.Reason(r.Err)
		}
		out.Renewed = append(out.Renewed, renewed)
	}
	return out, nil
}

// Release ends a claim, or removes a queue entry.
func (s *service) Release(ctx context.Context, m *api.ReleaseRequest) (*api.ReleaseResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.release(ctx, m.GetId())
}

func (s *service) release(ctx context.Context, m *api.ID) (*api.ReleaseResponse, error) {
	err := s.store.Release(ctx, message.IDOf(m))
	return answer(err, func() *api.ReleaseResponse { return &api.ReleaseResponse{} })
}

// Show returns the claims on a key, and its queue.
func (s *service) Show(ctx context.Context, m *api.ShowRequest) (*api.ShowResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	claims, err := driver.Show(ctx, s.store, string(m.GetKey()))
	return answer(err, func() *api.ShowResponse { return &api.ShowResponse{Claims: message.Claims(claims)} })
}

// listPart is the size of one message of List, in claims and in bytes of their values.
const (
	listPart  = 100
	listBytes = 64 << 10
)

// List sends the claims of all keys with a prefix, in parts.
func (s *service) List(ctx context.Context, m *api.ListRequest, out *connect.ServerStream[api.ListResponse]) error {
	control, bytes, checked := controlOf(ctx), 0, time.Now()
	control.idle() // a long list takes longer than a call
	part := &api.ListResponse{}
	send := func() error {
		if time.Since(checked) > recheckEvery {
			checked = time.Now()
			if err := s.recheck(ctx, access.FromContext(ctx)); err != nil {
				return err
			}
		}
		control.extend()
		defer control.idle()
		err := out.Send(part)
		part, bytes = &api.ListResponse{}, 0
		return err
	}
	for c, err := range driver.List(ctx, s.store, string(m.GetPrefix())) {
		if err != nil {
			return failure(err)
		}
		part.Claims = append(part.Claims, message.Claim(c))
		if bytes += len(c.Value); len(part.Claims) == listPart || bytes > listBytes {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// Break ends claims of others.
func (s *service) Break(ctx context.Context, m *api.BreakRequest) (*api.BreakResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	claims, err := driver.Break(ctx, s.store, string(m.GetKey()), m.GetUpToFence(), string(m.GetReason()))
	return answer(err, func() *api.BreakResponse { return &api.BreakResponse{Claims: message.Claims(claims)} })
}

// Inspect describes the store.
func (s *service) Inspect(ctx context.Context, _ *api.InspectRequest) (*api.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := driver.Inspect(ctx, s.store)
	return answer(err, func() *api.InspectResponse { return message.Info(info) })
}

// answer returns the answer of a store, or its error.
func answer[M any](err error, result func() *M) (*M, error) {
	if err != nil {
		return nil, failure(err)
	}
	return result(), nil
}

// failure returns the answer to a call that failed.
func failure(err error) error { return message.Error(message.Reason(err)) }

func draining() error {
	return message.Error(&api.Reason{Kind: api.Reason_KIND_DRAINING, Text: "the lock server is about to end"})
}
