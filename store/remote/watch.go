package remote

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
)

const (
	// activeLimit is how long a watch may take to be active. A proxy may accept the stream and pass
	// nothing on.
	activeLimit = time.Second

	// redialMin and redialMax bound the pauses between two attempts to open the stream.
	redialMin, redialMax = 50 * time.Millisecond, 10 * time.Second
)

// A watcher keeps all watches of a store, on one stream to a server. The stream is opened with the
// first watch, and again after it broke, until the store is closed.
type watcher struct {
	store *Store
	ctx   context.Context
	stop  context.CancelFunc
	done  sync.WaitGroup
	ready chan struct{} // there is something to send
	moves atomic.Pointer[context.CancelFunc]

	mu      sync.Mutex
	started bool
	down    bool // no stream, or one that passes nothing on: Watch returns nil at once
	last    uint64
	watches map[uint64]*watch
	out     []*api.WatchRequest
}

// A watch is one channel.
type watch struct {
	id      driver.ID
	wakes   chan driver.Wake
	begun   chan struct{} // closed when the watch is active, or refused
	active  bool
	refused bool
}

func (w *watcher) init(s *Store) {
	w.store, w.watches, w.ready = s, map[uint64]*watch{}, make(chan struct{}, 1)
	w.ctx, w.stop = context.WithCancel(context.Background())
}

func (w *watcher) close() {
	w.stop()
	w.done.Wait()
}

// watch begins a watch, and returns when it is active: nil if it cannot be.
func (w *watcher) watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	if id.Key == "" || len(id.Key) > driver.MaxKey || len(id.Owner) > driver.MaxOwner || ctx.Err() != nil {
		return nil
	}
	n, one := w.add(id)
	if one == nil {
		return nil
	}
	limit := time.NewTimer(activeLimit)
	defer limit.Stop()
	select {
	case <-one.begun:
		if one.refused {
			return nil
		}
	case <-limit.C:
		w.silent(n)
		return nil
	case <-ctx.Done():
		w.remove(n)
		return nil
	}
	context.AfterFunc(ctx, func() { w.remove(n) })
	return one.wakes
}

func (w *watcher) add(id driver.ID) (uint64, *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || w.ctx.Err() != nil {
		return 0, nil
	}
	if !w.started {
		w.started = true
		w.done.Go(w.run)
	}
	w.last++
	one := &watch{id: id, wakes: make(chan driver.Wake, 1), begun: make(chan struct{})}
	w.watches[w.last] = one
	w.sendLocked(&api.WatchRequest{Watch: w.last, Id: message.ID(id)})
	return w.last, one
}

func (w *watcher) remove(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches[n] != nil {
		delete(w.watches, n)
		w.sendLocked(&api.WatchRequest{Watch: n})
	}
}

// silent removes a watch that was not active in time. Until a message comes, others need not wait
// for one.
func (w *watcher) silent(n uint64) {
	w.remove(n)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
}

func (w *watcher) sendLocked(m *api.WatchRequest) {
	w.out = append(w.out, m)
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// move ends the stream, so that the next one is to the server in use.
func (w *watcher) move() {
	if cancel := w.moves.Load(); cancel != nil {
		(*cancel)()
	}
}

// run opens the stream again and again.
func (w *watcher) run() {
	pause := redialMin
	for w.ctx.Err() == nil {
		began := time.Now()
		w.serve()
		w.broken()
		if pause = min(2*pause, redialMax); time.Since(began) > redialMax {
			pause = redialMin
		}
		select {
		case <-w.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// serve opens the stream, begins all watches, and receives until the stream breaks.
func (w *watcher) serve() {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	w.moves.Store(&cancel)
	used := w.store.current.Load()
	stream, err := w.store.client.Watch(ctx)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.out = nil
	for n, one := range w.watches {
		w.sendLocked(&api.WatchRequest{Watch: n, Id: message.ID(one.id)})
	}
	w.mu.Unlock()
	var sender sync.WaitGroup
	defer sender.Wait()
	defer cancel()
	sender.Go(func() {
		if w.send(ctx, stream) != nil {
			cancel()
		}
	})
	for {
		m, err := stream.Receive()
		if err != nil {
			_ = stream.CloseResponse() // it has ended
			switch message.ReasonOf(err).GetKind() {
			case api.Reason_KIND_DRAINING:
				w.store.next(used)
			case api.Reason_KIND_UNAUTHENTICATED:
				_ = w.store.token.refresh() // for the next stream
			default:
			}
			return
		}
		w.handle(m)
	}
}

// send sends the requests of watches until the stream breaks.
func (w *watcher) send(ctx context.Context, stream *connect.BidiStreamForClientSimple[api.WatchRequest, api.WatchResponse]) error {
	defer func() { _ = stream.CloseRequest() }() // it has ended
	for {
		w.mu.Lock()
		out := w.out
		w.out = nil
		w.mu.Unlock()
		for _, m := range out {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.ready:
		}
	}
}

// handle takes a message of the server.
func (w *watcher) handle(m *api.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
	one := w.watches[m.GetWatch()]
	if one == nil {
		return
	}
	switch m.GetKind() {
	case api.WatchResponse_KIND_ACTIVE:
		if one.active {
			one.wake(driver.Wake{}) // it was active before, and may have missed a message
			return
		}
		one.active = true
		close(one.begun)
	case api.WatchResponse_KIND_REFUSED:
		delete(w.watches, m.GetWatch())
		one.end()
	case api.WatchResponse_KIND_WAKE:
		one.wake(driver.Wake{Granted: m.GetGranted(), Fence: m.GetFence(), Behind: int(m.GetBehind())})
	default: // a later version: it is no wake-up
	}
}

// broken wakes all watches, since messages may be lost, and refuses those that were not active yet.
func (w *watcher) broken() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for n, one := range w.watches {
		if !one.active {
			delete(w.watches, n)
		}
		one.end()
	}
}

// end refuses a watch that is not active, and wakes one that is.
func (o *watch) end() {
	if o.active {
		o.wake(driver.Wake{})
		return
	}
	o.refused = true
	close(o.begun)
}

// wake sends a message. The newest replaces one that was not received.
func (o *watch) wake(m driver.Wake) {
	for {
		select {
		case o.wakes <- m:
			return
		default:
		}
		select {
		case <-o.wakes:
		default:
		}
	}
}
