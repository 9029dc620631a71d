package postgres

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/internal/pgwire"
)

const (
	// together is the maximum number of calls in one transaction. Each call locks its key until the
	// commit.
	together = 64

	// batchLimit bounds a transaction. A longer one is cut off, and its outcome is unknown.
	batchLimit = 10 * time.Second

	// directSize bounds a call that its caller sends itself. It fits into any buffer, so the caller
	// does not wait until the server reads.
	directSize = 4 << 10

	// abandonAfter is how long a transaction continues after all its callers have left. Most
	// transactions are answered in that time, and the connection stays usable.
	abandonAfter = 500 * time.Millisecond

	// maxGather bounds how long the batcher waits for more calls, and quietFor how long it waits
	// without a new one. A caller that repeats its call arrives sooner if a core is free. A timer
	// would take longer, and then all callers would wait for the ones that hold their locks.
	maxGather = time.Millisecond
	quietFor  = 25 * time.Microsecond

	// stale is the idle time after which a connection is pinged before use.
	stale = time.Second

	// aheadOfUse is the delay after a grant before the connection for renewals is made. A lock that
	// is held for less time needs none.
	aheadOfUse = 50 * time.Millisecond
)

// A statement is one store operation in SQL.
type statement struct {
	sql     string
	formats []int16 // of the parameters: 1 is binary
	results []int16 // of the columns
	order   int     // statements with a lower order run first in a transaction

	// all is the same operation for many calls: its parameters are arrays, and it returns one row
	// for each call. Nil: there is none.
	all *statement
}

// A call is one execution of a statement.
type call struct {
	st   *statement
	key  string
	args [][]byte

	done     chan struct{} // closed when the fields below are set
	rows     [][][]byte
	err      error
	answered bool // the server sent the rows, and an error may have followed

	batch *batch       // the batch it was sent with; guarded by batcher.mu
	conn  *pgwire.Conn // the connection on which the server executed it
}

func (c *call) finish(err error) {
	c.err = definite(err, c.answered)
	close(c.done)
}

// A batch is a transaction with a set of calls that are sent together, and with its answer.
type batch struct {
	pgwire.Call
	calls   []*call
	groups  []group // one for each statement
	unsent  bool    // the connection had ended
	batcher *batcher
	live    atomic.Int32 // callers that still wait
	one     [1]*call     // the memory of calls, if there is one
}

// cancel cuts the batch off if it is still in progress.
func (b *batch) cancel() {
	b.batcher.mu.Lock()
	defer b.batcher.mu.Unlock()
	if b.batcher.current == b {
		b.batcher.cutLocked()
	}
}

// A batcher is a connection with a queue of calls. Calls that arrive while a batch is in progress
// wait and go out together. There is one transaction at a time, so a release cannot overtake the
// acquire that it undoes.
//
// A caller that finds the batcher idle sends its call and reads the answer itself. A goroutine does
// so for all other calls.
type batcher struct {
	s      *Store
	ctx    context.Context // ends when the batcher is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	queue   []*call
	running bool
	closed  bool
	current *batch       // the last batch that was sent
	active  *pgwire.Conn // the connection of a batch in progress; nil: there is none

	opens atomic.Bool // the connection was requested ahead of the first call

	// Only the goroutine that set running uses the fields below.
	conn     *pgwire.Conn
	server   *server
	prepared map[*statement]string // their names
	limit    *time.Timer           // cuts off a batch that takes too long
}

func newBatcher(s *Store) *batcher {
	b := &batcher{s: s}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.limit = time.AfterFunc(batchLimit, b.cut)
	b.limit.Stop()
	return b
}

// do runs a call and waits for its end or the end of ctx. A call that was not sent before ctx ends
// is never sent.
func (b *batcher) do(ctx context.Context, c *call) error {
	c.done = make(chan struct{})
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return errClosed
	}
	b.queue = append(b.queue, c)
	var own *batch
	switch {
	case b.running:
	case b.canSendDirect(c):
		b.running = true
		b.wg.Add(1)
		own = b.take()
	default:
		b.running = true
		b.wg.Go(func() { b.run(nil) }) //nolint:contextcheck // it serves all callers
	}
	b.mu.Unlock()
	if own != nil {
		b.sendDirect(own) //nolint:contextcheck // a sent call is read even if ctx has ended
		select {
		case <-c.done: // even if ctx has ended too
			return c.err
		default:
		}
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		b.detach(c)
		return ctx.Err()
	}
}

// open connects soon, ahead of the first call: later the server may have no connection left, or
// another password. If open fails, the next grant tries again.
func (b *batcher) open(sts ...*statement) {
	if b.opens.Load() || b.opens.Swap(true) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.wg.Go(func() {
		select {
		case <-b.ctx.Done():
			return
		case <-time.After(aheadOfUse):
		}
		b.mu.Lock()
		if b.running {
			b.mu.Unlock()
			return // the running goroutine connects
		}
		b.running = true
		b.mu.Unlock()
		if err := b.prepare(sts); err != nil {
			b.drop()
			b.opens.Store(false)
		}
		b.run(nil)
	})
}

// canSendDirect reports whether the caller can send its call itself and get a quick answer. No
// goroutine is running, and b.mu is held.
func (b *batcher) canSendDirect(c *call) bool {
	if b.conn == nil || b.conn.Err() != nil || b.isStale() {
		return false
	}
	size := 0
	for _, a := range c.args {
		size += len(a)
	}
	return size <= directSize
}

// sendDirect sends the caller's call, and reads the answer unless that takes too long. A goroutine
// handles calls that arrive in the meantime.
func (b *batcher) sendDirect(x *batch) {
	defer b.wg.Done()
	x.groups = grouped(x.calls)
	if b.send(x) && !b.conn.Read(x.Done) {
		b.wg.Go(func() { b.run(x) })
		return
	}
	b.finishDirect(x)
	if !b.stopIfIdle() {
		b.wg.Go(func() { b.run(nil) })
	}
}

// finishDirect ends the batch of a caller that sent its call itself. If the server had closed
// the connection and the caller still waits, the call is the first one on the next connection.
func (b *batcher) finishDirect(x *batch) {
	err := b.end(x)
	if unserved(x.calls, err) {
		b.mu.Lock()
		again := x.live.Load() > 0
		if again {
			x.calls[0].batch = nil
			b.queue = slices.Insert(b.queue, 0, x.calls...)
		}
		b.mu.Unlock()
		if again {
			return
		}
	}
	x.calls[0].finish(err)
}

// stopIfIdle ends the run if no call waits.
func (b *batcher) stopIfIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = len(b.queue) > 0
	return !b.running
}

// detach removes a call from the queue. A call that was already sent continues without its caller.
func (b *batcher) detach(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.batch == nil {
		b.queue = slices.DeleteFunc(b.queue, func(o *call) bool { return o == c })
		return
	}
	if c.batch.live.Add(-1) == 0 {
		time.AfterFunc(abandonAfter, c.batch.cancel)
	}
}

// run reads the answers of the pending batch, if there is one, and then sends calls until none
// waits.
func (b *batcher) run(pending *batch) {
	if pending != nil {
		b.limit.Reset(batchLimit)
		b.await(pending)
		b.finishDirect(pending)
	}
	var last int // the size of the last batch
	for {
		b.gather(last)
		if b.stopIfIdle() {
			return
		}
		b.mu.Lock()
		next := b.take()
		b.mu.Unlock()
		if next == nil { // the waiting callers have left
			last = 0
			continue
		}
		b.transact(next.calls)
		last = len(next.calls)
	}
}

// take removes calls from the queue and returns them as a batch, or nil if there are none. b.mu is
// held.
func (b *batcher) take() *batch {
	n := min(len(b.queue), together)
	if n == 0 {
		return nil
	}
	next := &batch{batcher: b}
	next.calls = append(next.one[:0], b.queue[:n]...)
	b.queue = append(b.queue[:0], b.queue[n:]...)
	for _, c := range next.calls {
		c.batch = next
	}
	next.live.Store(int32(n))
	b.current = next
	return next
}

// gather waits a little for the callers of the last batch: they have just been answered, and many
// call again. Sending the first call at once would make all others wait for one. Sending only the
// calls that arrived during the batch would split the callers into two halves for good, and each
// half would pay for its own transactions. gather yields the processor as long as calls keep
// arriving.
func (b *batcher) gather(last int) {
	have, closed := b.waiting()
	all := min(have+last, together)
	if all < 2 {
		return
	}
	began := time.Now()
	for came := began; have < all && !closed; {
		runtime.Gosched()
		var n int
		n, closed = b.waiting()
		now := time.Now()
		if n > have {
			came = now
		}
		if have = n; now.Sub(came) > quietFor || now.Sub(began) > maxGather {
			return
		}
	}
}

// waiting returns the number of waiting calls, and whether the batcher is closed.
func (b *batcher) waiting() (n int, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue), b.closed
}

// transact runs calls in one transaction. If the server refuses one call, the whole transaction
// fails and each call runs alone, so an invalid call does not affect the others. After a lock
// timeout, releases here do not wait: each would delay all others.
func (b *batcher) transact(calls []*call) {
	// Releases come first, and keys are sorted in the same order everywhere, so that no deadlock
	// occurs.
	slices.SortStableFunc(calls, func(a, b *call) int {
		return cmp.Or(a.st.order-b.st.order, cmp.Compare(a.key, b.key))
	})
	err := b.attempt(calls)
	if err != nil && len(calls) > 1 && code(err) != "" && b.conn != nil {
		locked := code(err) == lockTimeout
		for _, c := range calls {
			c.rows, c.answered = nil, false
			if locked && c.st == &b.s.st.release {
				c.args[waitArg] = nil // do not wait
			}
			c.finish(b.attempt([]*call{c}))
		}
		return
	}
	for _, c := range calls {
		c.finish(err)
	}
}

// close cancels the batch in progress and closes the connection.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.cutLocked()
	b.mu.Unlock()
	b.cancel()
	b.wg.Wait()
	b.drop()
}
