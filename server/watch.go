package server

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

const (
	// maxWatches is the number of watches of one stream.
	maxWatches = 10_000

	// recheckEvery is how often the client of a call that lasts is authenticated again.
	recheckEvery = time.Second
)

// A control sets the deadlines of a call's connection.
type control struct{ http *http.ResponseController }

func controlOf(ctx context.Context) control {
	return control{callOf(ctx).control}
}

// extend gives the client time to receive the next message. A client that does not receive it is
// cut off.
func (c control) extend() {
	if c.http != nil {
		_ = c.http.SetWriteDeadline(time.Now().Add(writeLimit))
	}
}

// idle lets a stream stay without a message for as long as it likes. HTTP/2 ends a stream at its
// deadline, also if nothing is to be sent.
func (c control) idle() {
	if c.http != nil {
		_ = c.http.SetWriteDeadline(time.Time{})
	}
}

// cut ends a stream whose client does not receive.
func (c control) cut() {
	if c.http != nil {
		_ = c.http.SetWriteDeadline(time.Unix(1, 0))
	}
}

// interrupt ends the call that waits for the next message of the client.
func (c control) interrupt() {
	if c.http != nil {
		_ = c.http.SetReadDeadline(time.Now())
	}
}

// A stream is the watches of one client process.
type stream struct {
	service *service
	ctx     context.Context
	cancel  context.CancelFunc
	control control

	mu  sync.Mutex // guards Send
	out *connect.BidiStream[api.WatchRequest, api.WatchResponse]

	began   time.Time
	sending atomic.Int64 // when the message under way was sent, by time.Since(began); 0: none

	ended atomic.Pointer[error] // why the server ended the stream

	watches map[uint64]context.CancelFunc // of the goroutine that receives
	running sync.WaitGroup
}

// Watch serves the watches of one client process. The end of the stream ends them all.
func (s *service) Watch(ctx context.Context, out *connect.BidiStream[api.WatchRequest, api.WatchResponse]) error {
	if s.drained.Err() != nil {
		return draining()
	}
	st := &stream{service: s, control: controlOf(ctx), out: out, began: time.Now(), watches: map[uint64]context.CancelFunc{}}
	st.control.idle()
	st.ctx, st.cancel = context.WithCancel(ctx)
	defer st.running.Wait()
	defer st.control.extend() // for what is still being sent, and for the last message
	defer st.cancel()
	defer context.AfterFunc(s.drained, st.control.interrupt)() //nolint:contextcheck // the server drains, not the call
	st.running.Go(st.recheck)
	// The first message is about no watch: it says that messages arrive.
	if err := st.send(&api.WatchResponse{Kind: api.WatchResponse_KIND_ACTIVE}); err != nil {
		return err
	}
	for {
		m, err := out.Receive()
		switch {
		case s.drained.Err() != nil:
			return draining()
		case err != nil && st.ended.Load() != nil:
			return *st.ended.Load()
		case err != nil:
			return nil //nolint:nilerr // the client has ended the stream, or is gone
		}
		if err := st.handle(m); err != nil { //nolint:contextcheck // the stream has its own
			return err
		}
	}
}

// recheck ends the stream when its client does not receive, or may no longer do what it could at
// the beginning: its credentials have expired or were revoked, or its permissions have changed. In
// the last case the client begins again.
func (st *stream) recheck() {
	every := time.NewTicker(recheckEvery)
	defer every.Stop()
	was := access.FromContext(st.ctx)
	for {
		select {
		case <-st.ctx.Done():
			return
		case <-every.C:
		}
		if sent := st.sending.Load(); sent > 0 && time.Since(st.began)-time.Duration(sent) > writeLimit {
			st.control.cut()
		}
		err := st.service.recheck(st.ctx, was)
		if err != nil {
			st.ended.Store(&err)
			st.cancel()
			st.control.interrupt()
			st.control.extend() // nothing cuts off a client that does not receive the next message
			return
		}
	}
}

// recheck returns an error if the caller of a call that lasts is no longer who it was, or may do
// something else.
func (s *Server) recheck(ctx context.Context, was *access.Identity) error {
	r := callOf(ctx).request
	if r == nil {
		return nil // no call of a client
	}
	is, err := s.Caller(r)
	if err == nil && (is.Name != was.Name || !slices.Equal(is.Permissions, was.Permissions)) {
		err = message.Error(&api.Reason{Kind: api.Reason_KIND_UNAVAILABLE, Text: "the permissions of the client have changed"})
	}
	return err
}

// handle begins or ends a watch.
func (st *stream) handle(m *api.WatchRequest) error {
	n := m.GetWatch()
	if end, ok := st.watches[n]; ok || m.GetId() == nil {
		if ok {
			end()
		}
		delete(st.watches, n)
		return nil
	}
	ctx, cancel := context.WithCancel(st.ctx)
	var wakes <-chan driver.Wake
	if len(st.watches) < maxWatches {
		wakes = driver.Watch(ctx, st.service.store, message.IDOf(m.GetId()))
	}
	if wakes == nil {
		cancel()
		return st.send(&api.WatchResponse{Watch: n, Kind: api.WatchResponse_KIND_REFUSED})
	}
	st.watches[n] = cancel
	if err := st.send(&api.WatchResponse{Watch: n, Kind: api.WatchResponse_KIND_ACTIVE}); err != nil {
		return err
	}
	id := message.IDOf(m.GetId())
	st.running.Go(func() { st.forward(ctx, n, id, wakes) })
	return nil
}

// forward passes wake-ups on, unchanged: a pushed grant starts no trust, here as in the store.
func (st *stream) forward(ctx context.Context, n uint64, id driver.ID, wakes <-chan driver.Wake) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-wakes:
			st.service.acquired(ctx, id, w.Granted, w.Fence, nil)
			st.service.store.pushed(id, w)
			err := st.send(&api.WatchResponse{
				Watch: n, Kind: api.WatchResponse_KIND_WAKE, Granted: w.Granted, Fence: w.Fence, Behind: int64(w.Behind),
			})
			if err != nil {
				st.cancel()
				st.control.interrupt()
				return
			}
		}
	}
}

// send sends a message. It has no deadline of its own, but recheck ends it: with HTTP/2, a deadline
// for each message costs two messages to another goroutine.
func (st *stream) send(m *api.WatchResponse) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.sending.Store(int64(max(1, time.Since(st.began))))
	defer st.sending.Store(0)
	return st.out.Send(m)
}
