package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// silence is how long a stream may answer nothing while a call waits. A call that ends after that
// closes the stream, and the next one opens another.
const silence = 500 * time.Millisecond

// beats sends keep-alives over one stream. The keep-alives of the client library are of no use
// here: they renew by themselves, and do not say when the request that was answered had been sent.
type beats struct {
	store *Store
	mu    sync.Mutex
	now   *stream // nil: none is open
}

// A beat is one keep-alive.
type beat struct {
	id     int64
	sent   time.Time     // before it was sent
	kept   time.Duration // the same, by the clock of the pool
	stream *stream

	done chan struct{} // closed when the fields below are set
	ttl  int64         // the length of the lease; 0: it has ended
	err  error
}

// A stream sends requests and matches the n-th answer with the n-th request: an answer to an
// earlier request for the same lease says nothing about a later one.
type stream struct {
	beats  *beats
	cancel context.CancelFunc
	more   chan struct{} // ready if run has to send

	sending sync.Mutex // of the goroutine that sends
	conn    pb.Lease_LeaseKeepAliveClient

	mu      sync.Mutex
	open    bool      // conn is set
	queue   []*beat   // not sent yet
	pending []*beat   // sent, in order
	heard   time.Time // the last answer
	err     error     // the stream has ended
}

// direct is up to how many unanswered keep-alives the caller sends the next one itself. They are a
// few kilobytes, and a stream of gRPC accepts 64 KB before it blocks.
const direct = 256

// send sends a keep-alive. It does not block.
func (b *beats) send(id int64) *beat {
	one := &beat{id: id, sent: time.Now(), kept: b.store.pool.clock.Now(), done: make(chan struct{})}
	if err := b.store.ctx.Err(); err != nil {
		one.fail(err)
		return one
	}
	b.add(one).flush()
	return one
}

// add queues a beat in the open stream, or in a new one.
func (b *beats) add(one *beat) *stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil || !b.now.add(one) {
		b.now = b.open()
		b.now.add(one)
	}
	return b.now
}

// open starts a stream.
func (b *beats) open() *stream {
	ctx, cancel := context.WithCancel(b.store.ctx)
	st := &stream{beats: b, cancel: cancel, more: make(chan struct{}, 1), heard: time.Now()}
	b.store.wg.Go(func() {
		defer cancel()
		st.end(st.run(ctx))
	})
	return st
}

// run sends until the stream ends, and returns why it did.
func (st *stream) run(ctx context.Context) error {
	conn, err := st.beats.store.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	received := make(chan error, 1)
	st.beats.store.wg.Go(func() { received <- st.receive(conn) })
	st.mu.Lock()
	st.conn, st.open = conn, true
	st.mu.Unlock()
	for {
		st.sending.Lock()
		st.drain()
		st.sending.Unlock()
		select {
		case err := <-received:
			return err
		case <-st.more:
		}
	}
}

// flush sends the queue, or makes run send it: if it might block, or if another goroutine sends and
// may already have seen the end of the queue. A caller that sends itself saves a switch to another
// goroutine.
func (st *stream) flush() {
	st.mu.Lock()
	able := st.open && len(st.pending)+len(st.queue) <= direct
	st.mu.Unlock()
	if able && st.sending.TryLock() {
		defer st.sending.Unlock()
		st.drain()
		return
	}
	select {
	case st.more <- struct{}{}:
	default:
	}
}

// drain sends the queue. If that fails, the stream ends, and receive returns why.
func (st *stream) drain() {
	for one := st.next(); one != nil; one = st.next() {
		if st.conn.Send(&pb.LeaseKeepAliveRequest{ID: one.id}) != nil {
			st.cancel()
			return
		}
	}
}

func (st *stream) receive(conn pb.Lease_LeaseKeepAliveClient) error {
	for {
		resp, err := conn.Recv()
		if err != nil {
			return err
		}
		st.mu.Lock()
		if len(st.pending) == 0 || st.pending[0].id != resp.ID {
			st.mu.Unlock()
			st.cancel()
			return fmt.Errorf("etcd: a keep-alive of the lease %x was answered out of order", resp.ID)
		}
		one := st.pending[0]
		st.pending, st.heard = st.pending[1:], time.Now()
		st.mu.Unlock()
		one.ttl = resp.TTL
		close(one.done)
	}
}

// add queues a beat, unless the stream has ended.
func (st *stream) add(one *beat) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return false
	}
	one.stream = st
	st.queue = append(st.queue, one)
	return true
}

// next moves a beat from the queue to those that are sent.
func (st *stream) next() *beat {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.queue) == 0 {
		return nil
	}
	one := st.queue[0]
	st.queue, st.pending = st.queue[1:], append(st.pending, one)
	return one
}

// end fails the beats that were not answered.
func (st *stream) end(err error) {
	st.mu.Lock()
	st.err = err
	left := append(st.pending, st.queue...)
	st.pending, st.queue = nil, nil
	st.mu.Unlock()
	for _, one := range left {
		one.fail(err)
	}
}

func (one *beat) fail(err error) {
	one.err = fmt.Errorf("etcd: no answer to a keep-alive: %w", err)
	close(one.done)
}

// wait returns the length of the lease, or 0 if the lease has ended.
func (one *beat) wait(ctx context.Context) (ttl int64, err error) {
	select {
	case <-one.done:
		return one.ttl, one.err
	case <-ctx.Done():
	}
	if st := one.stream; st != nil {
		st.mu.Lock()
		silent := time.Since(one.sent) > silence && st.heard.Before(one.sent)
		st.mu.Unlock()
		if silent {
			st.cancel()
		}
	}
	return 0, fmt.Errorf("etcd: %w", ctx.Err())
}
