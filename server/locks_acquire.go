package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/backoff"
	"github.com/distlock/distlock/internal/handle"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

const (
	// maxWait is how long one call waits at most: many proxies end a call after 30 s.
	maxWait = 25 * time.Second

	// queueTTL is the life of a queue entry after each attempt. A caller that calls again within it
	// keeps its position. The entry of a caller that is gone holds up others for no longer.
	queueTTL = 5 * time.Second

	// leaveTTL is the life of a queue entry after the last attempt of a wait that has ended. It
	// removes the entry as Release would, but never a claim.
	leaveTTL = time.Millisecond

	// undoLimit bounds the release of a claim that nobody knows of.
	undoLimit = time.Second
)

// An acquisition is one call of Acquire.
type acquisition struct {
	server   *Server
	request  driver.Request
	handle   handle.Handle
	received time.Time // when the call came
	sent     time.Time // when the last attempt was sent
	wait     time.Duration
	joined   bool // the caller may have a queue entry: it has a handle
	made     bool // the server made the owner in this call, and nobody else knows it
	left     bool // something of the owner may be in the store
	unsure   bool // the last attempt that the store may have received has no answer
}

// Acquire grants or refuses a claim, and waits for it.
func (s *locks) Acquire(ctx context.Context, m *api.LocksAcquireRequest) (*api.LocksAcquireResponse, error) {
	received := time.Now()
	if s.drained.Err() != nil {
		return nil, draining()
	}
	a := &acquisition{server: s.Server, received: received}
	if err := a.parse(m, s.store.Features(), access.FromContext(ctx)); err != nil {
		return nil, err
	}
	out, err := a.run(ctx)
	if err == nil && ctx.Err() != nil {
		err = failure(context.Cause(ctx)) // nobody receives the answer
	}
	if err != nil {
		a.undo(ctx)
		return nil, err
	}
	return out, nil
}

// run makes the first attempt, and waits if it has to.
func (a *acquisition) run(ctx context.Context) (*api.LocksAcquireResponse, error) {
	if a.wait == 0 || !a.joined {
		res, err := a.attempt(ctx, 0)
		switch {
		case err != nil:
			return nil, failure(err)
		case res.Granted:
			return a.granted(res), nil
		case a.wait == 0:
			return a.refused(res, false), nil
		}
	}
	done, err := a.server.op.quota.wait(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return a.await(ctx)
}

// await waits in the queue. It attempts when the store wakes it, and from time to time, as the
// library does. A pushed grant is confirmed by an attempt like every other wake-up: it lives for
// the rest of the queue entry, and may have ended when the message comes.
func (a *acquisition) await(ctx context.Context) (*api.LocksAcquireResponse, error) {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	wake := driver.Watch(watch, a.server.store, a.request.ID)
	checked, control, long := a.received, controlOf(ctx), false
	defer func() {
		if long {
			control.extend()
		}
	}()
	for n := 1; ; n++ {
		if ctx.Err() != nil { // before each attempt: a caller that is gone must not be granted a claim
			return nil, failure(context.Cause(ctx))
		}
		if time.Since(checked) > recheckEvery {
			checked = time.Now()
			if !long { // the deadline of a call is later, and to move it costs time
				control.idle()
				long = true
			}
			if err := a.server.recheck(ctx, access.FromContext(ctx)); err != nil {
				return nil, a.failure(err)
			}
		}
		waited := time.Since(a.received)
		last := waited >= min(a.wait, maxWait) || a.server.drained.Err() != nil
		again := waited < a.wait
		queue := queueTTL
		if last && !again {
			queue = leaveTTL
		}
		res, err := a.attempt(ctx, queue)
		switch {
		case err == nil && res.Granted:
			return a.granted(res), nil
		case err != nil && (last || definite(err) && !errors.Is(err, driver.ErrUnavailable)):
			return nil, a.failure(err)
		case last:
			return a.refused(res, again), nil
		}
		pause := pause(res, n, wake != nil && err == nil)
		timer := time.NewTimer(min(pause, time.Until(a.received.Add(min(a.wait, maxWait)))))
		select {
		case <-ctx.Done():
		case <-a.server.drained.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// failure returns the answer to a caller whose wait failed. It is definite only if all attempts
// are: one without an answer may have been granted, or may be granted a little later.
func (a *acquisition) failure(err error) error {
	if a.unsure && definite(err) {
		return message.Error(&api.Reason{
			Kind: api.Reason_KIND_UNKNOWN, Text: "an attempt has no answer, and the ones after it failed: " + message.Reason(err).GetText(),
		})
	}
	return failure(err)
}

// definite reports whether a call of the store that failed has certainly changed nothing.
func definite(err error) bool {
	return message.Reason(err).GetKind() != api.Reason_KIND_UNKNOWN
}

// attempt makes one call of the store. It notes when the call was sent: trust counts from then on.
func (a *acquisition) attempt(ctx context.Context, queue time.Duration) (driver.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r := a.request
	r.QueueTTL = queue
	a.sent = time.Now()
	res, err := a.server.store.Acquire(ctx, r)
	if err == nil && (res.Granted || queue > 0) || err != nil && !definite(err) {
		a.left = true
	}
	if err == nil || !definite(err) {
		a.unsure = err != nil
	}
	if err == nil && res.Granted && !res.Fresh && !a.made {
		err = a.same(ctx, res)
	}
	return res, err
}

// same checks the grant of an owner that had a claim already: the store grants that claim again,
// and it may be less than this call wants. A shared lock is no exclusive one.
func (a *acquisition) same(ctx context.Context, res driver.Result) error {
	less := flaw("owner", "it has a claim on the name already, which is less than this call wants: release it, and take a new owner")
	switch {
	case a.handle.Mode == handle.Shared, a.request.Weight == 1:
		return nil
	case a.handle.Mode == handle.Exclusive && res.Used < driver.Whole:
		return less
	case a.handle.Mode == handle.Exclusive:
		return nil
	}
	claims, err := driver.Show(ctx, a.server.store, a.request.Key)
	if err != nil {
		return errors.New("the claim cannot be compared with an earlier one of the owner")
	}
	for _, c := range claims {
		if c.Owner == driver.Tag(a.request.Owner) && !c.Waiting && c.Weight < a.request.Weight {
			return less
		}
	}
	return nil
}

// undo releases what an owner may have that nobody knows. An owner that the caller gave, or has as
// a handle, is never released here: its claim may have been granted through another server
// meanwhile.
func (a *acquisition) undo(ctx context.Context) {
	if !a.made || !a.left {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	_ = a.server.store.Release(ctx, a.request.ID) // if it fails, the claim ends after its TTL
}

// granted returns the answer to a caller that has the claim.
func (a *acquisition) granted(res driver.Result) *api.LocksAcquireResponse {
	a.handle.Fence = res.Fence
	return &api.LocksAcquireResponse{
		Granted: true, Handle: a.handle.Secret(), Fence: proto.Uint64(res.Fence),
		ValidFor: durationpb.New(trust(a.handle.TTL)),
		Waited:   durationpb.New(a.sent.Sub(a.received)),
	}
}

// refused returns the answer to a caller that does not have the claim. With again it is in the
// queue.
func (a *acquisition) refused(res driver.Result, again bool) *api.LocksAcquireResponse {
	a.handle.Fence = 0
	out := &api.LocksAcquireResponse{Again: again, Handle: a.handle.Secret()}
	if again {
		out.Position = proto.Int32(int32(min(res.Ahead, 1<<30) + 1))
	}
	if res.Retry > 0 {
		out.RetryAfter = durationpb.New(res.Retry)
	}
	if res.Blocker.Key != "" {
		out.Holder = message.LockClaim(res.Blocker)
	}
	return out
}

// The pauses between attempts, as the library has them by default.
const (
	minPause    = 20 * time.Millisecond
	maxPause    = time.Second
	foreignPoll = 100 * time.Millisecond // while another program holds the name, whose release wakes nobody
	near        = 16                     // how many may be before an entry that attempts often
)

// pause returns how long to wait for a wake-up after n attempts.
func pause(res driver.Result, n int, woken bool) time.Duration {
	c := res.Blocker
	var d time.Duration
	switch {
	case c.Holder != "" && c.Fence == 0 && c.Held == 0 && !c.Waiting:
		d = backoff.Pause(n, minPause, foreignPoll)
	case !woken:
		d = backoff.Pause(n, minPause, maxPause)
	case res.Ahead > near: // the attempt only has to keep the entry
		return queueTTL/4 + backoff.Jitter(queueTTL/4)
	default:
		d = backoff.Jitter(maxPause)
	}
	if res.Retry > 0 && res.Retry < d {
		d = min(d, res.Retry+backoff.Jitter(2*time.Millisecond)) // it ends by itself, and wakes nobody
	}
	return d
}
