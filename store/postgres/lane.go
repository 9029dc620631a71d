package postgres

import (
	"cmp"
	"context"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// together is how many calls go out in one transaction at most. Each has a lock on its key until the commit.
	together = 64

	// laneLimit bounds a transaction. What takes longer is cut off, and its outcome is unknown.
	laneLimit = 10 * time.Second

	// attendFor is how long a caller reads the answer itself, whatever becomes of its ctx, before it leaves that to a goroutine.
	// To be woken by one costs it as much as a part of what the server takes.
	attendFor = 10 * time.Millisecond

	// attendSize bounds what a caller sends itself: as much as fits into any buffer, so that it does not wait for the server to read.
	attendSize = 4 << 10

	// abandoned is for how long a transaction is left to itself after all its callers have gone: most are answered meanwhile,
	// and the connection can be used on.
	abandoned = 500 * time.Millisecond

	// maxGather bounds how long calls are waited for that may go out together, and quiet for how long nobody may come meanwhile. Who was just
	// answered and calls again is there sooner, where a core is free; a timer would take longer than that, and those who hold what they got
	// would make all others wait for it.
	maxGather = time.Millisecond
	quiet     = 25 * time.Microsecond

	// stale is after how long a connection that was not used is asked whether it is there.
	stale = time.Second

	// aheadOfUse is how long after a grant the connection for renewals is made. What is held for a shorter time needs none.
	aheadOfUse = 50 * time.Millisecond
)

// A statement is one of the verbs in SQL.
type statement struct {
	sql     string
	formats []int16 // of the parameters: 1 is binary
	results []int16 // of the columns
	order   int     // lower ones come first in a transaction

	// all does the same for many at once: its parameters are arrays, and it has a row for each. Nil: there is no such one.
	all *statement
}

// A call is one run of a statement.
type call struct {
	st   *statement
	key  string
	args [][]byte

	done     chan struct{} // closed when the rest is set
	rows     [][][]byte
	err      error
	answered bool // the rows came, and then an error

	batch *batch // where it is under way; guarded by the lane's mu
}

func (c *call) finish(err error) {
	c.err = definite(err, c.answered)
	close(c.done)
}

// A batch is the calls that are under way together.
type batch struct {
	calls []*call
	lane  *lane
	live  atomic.Int32 // callers that still wait
}

// cancel cuts the batch off, if it is under way still.
func (b *batch) cancel() {
	b.lane.mu.Lock()
	defer b.lane.mu.Unlock()
	if b.lane.under == b {
		b.lane.cut()
	}
}

// A lane is a connection, and the calls that wait for it. While calls are under way, others gather; then they go out
// together. One transaction comes after the other, so that a release does not overtake the acquire that it undoes.
//
// A caller that finds the lane idle sends its call and reads the answer itself. For all others a goroutine does so.
type lane struct {
	s      *Store
	ctx    context.Context // over when the lane is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	queue   []*call
	running bool
	closed  bool
	under   *batch   // the last that was begun
	wire    net.Conn // on which something is under way
	off     bool     // it was cut off
	listens bool     // the connection listens for notifications too, whenever no call waits
	wake    func()   // ends that; nil: it does not listen right now

	opens atomic.Bool // it was opened, or will be soon

	// The rest belongs to whoever runs.
	conn     *pgx.Conn
	server   *server
	prepared map[*statement]string
	used     time.Time // when the connection was last heard of
	until    time.Time // the deadline for reading
	bounded  bool      // there is one for writing too
	hears    bool      // the server was told to send notifications
}

func newLane(s *Store) *lane {
	l := &lane{s: s}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// do runs a call and waits for it, or for ctx. A call that has not gone out when ctx ends never does.
func (l *lane) do(ctx context.Context, c *call) error {
	c.done = make(chan struct{})
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	l.queue = append(l.queue, c)
	if l.wake != nil {
		l.wake()
	}
	var lead *batch
	switch {
	case l.running:
	case l.handy(c):
		l.running = true
		l.wg.Add(1)
		lead = l.take()
	default:
		l.running = true
		l.wg.Go(func() { l.run(nil) }) //nolint:contextcheck // it runs for all who come
	}
	l.mu.Unlock()
	if lead != nil {
		l.lead(lead) //nolint:contextcheck // what was sent is read also when ctx is over
		select {
		case <-c.done: // also if ctx has ended meanwhile
			return c.err
		default:
		}
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		l.leave(c)
		return ctx.Err()
	}
}

// open connects soon, ahead of the first call: later there may be no connection left, or another password. If it fails, the next
// grant tries again.
func (l *lane) open(sts ...*statement) {
	if l.opens.Load() || l.opens.Swap(true) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.wg.Go(func() {
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(aheadOfUse):
		}
		l.mu.Lock()
		if l.running {
			l.mu.Unlock()
			return // whoever runs connects
		}
		l.running = true
		l.mu.Unlock()
		var groups []group
		for _, st := range sts {
			groups = append(groups, group{st: st})
		}
		if err := l.connect(groups); err != nil {
			l.drop()
			l.opens.Store(false)
		}
		l.used = time.Now()
		l.run(nil)
	})
}

// handy reports whether a call can be sent and answered at once, so that its caller may do it. Nobody runs, and the lock is held.
func (l *lane) handy(c *call) bool {
	if l.conn == nil || time.Since(l.used) > stale {
		return false
	}
	size := 0
	for _, a := range c.args {
		size += len(a)
	}
	return size <= attendSize && (l.server.pooled || l.prepared[c.st] != "")
}

// lead sends the call of the caller, and reads the answer unless it takes too long. Others that came meanwhile are left to a goroutine.
func (l *lane) lead(b *batch) {
	defer l.wg.Done()
	x := &exchange{batch: b, groups: grouped(b.calls)}
	err := l.post(x, attendFor)
	if err == nil {
		err = l.read(x)
		if l.late(err) {
			l.wg.Go(func() { l.run(x) })
			return
		}
	}
	l.conclude(x, err)
	if !l.idle() {
		l.wg.Go(func() { l.run(nil) })
	}
}

// conclude ends the exchange of a caller that sent its call itself. If the server had closed the
// connection, and the caller still waits, the call goes first on the next one.
func (l *lane) conclude(x *exchange, err error) {
	err = l.end(x, err)
	if unserved(x.batch.calls, err) {
		l.mu.Lock()
		again := x.batch.live.Load() > 0
		if again {
			x.batch.calls[0].batch = nil
			l.queue = slices.Insert(l.queue, 0, x.batch.calls...)
		}
		l.mu.Unlock()
		if again {
			return
		}
	}
	x.batch.calls[0].finish(err)
}

// idle ends the run if nothing waits.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.queue) > 0
	return !l.running
}

// leave takes a call out of the queue, or leaves it to itself.
func (l *lane) leave(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.batch == nil {
		l.queue = slices.DeleteFunc(l.queue, func(o *call) bool { return o == c })
		return
	}
	if c.batch.live.Add(-1) == 0 {
		time.AfterFunc(abandoned, c.batch.cancel)
	}
}

// run reads the answers to what is under way, if something is, and then sends what waits until nothing does.
func (l *lane) run(under *exchange) {
	if under != nil {
		l.extend(laneLimit)
		l.conclude(under, l.read(under))
	}
	var last int // how many calls went out together
	for {
		l.gather(last)
		if l.listen() {
			last = 0
			continue
		}
		if l.idle() {
			return
		}
		l.mu.Lock()
		b := l.take()
		l.mu.Unlock()
		if b == nil { // those who waited have left
			last = 0
			continue
		}
		l.send(b.calls)
		last = len(b.calls)
	}
}

// take takes calls out of the queue; nil: there are none. The lock is held.
func (l *lane) take() *batch {
	n := min(len(l.queue), together)
	if n == 0 {
		return nil
	}
	b := &batch{calls: slices.Clone(l.queue[:n]), lane: l}
	l.queue = append(l.queue[:0], l.queue[n:]...)
	for _, c := range b.calls {
		c.batch = b
	}
	b.live.Store(int32(n))
	l.under = b
	return b
}

// gather waits a little until those come back who went out together before: they have just been answered, and many do. To go out with
// the first of them would make all others wait for one. To go out with those who came meanwhile would make two halves take turns for good, and
// each pay for a transaction. It gives way to them for as long as they keep coming.
func (l *lane) gather(last int) {
	have, closed := l.waiting()
	all := min(have+last, together)
	if all < 2 {
		return
	}
	began := time.Now()
	for came := began; have < all && !closed; {
		runtime.Gosched()
		var n int
		n, closed = l.waiting()
		now := time.Now()
		if n > have {
			came = now
		}
		if have = n; now.Sub(came) > quiet || now.Sub(began) > maxGather {
			return
		}
	}
}

// waiting tells how many calls wait, and whether the lane is closed.
func (l *lane) waiting() (n int, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue), l.closed
}

// send runs calls in one transaction. If the server refuses one, and with it all, each is run alone: one that cannot be
// done hurts no other. After a wait for a lock, releases wait for nobody here, where each would hold up all others.
func (l *lane) send(calls []*call) {
	// What makes room comes first, and keys have one order everywhere, so that nobody waits in a circle.
	slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Or(a.st.order-b.st.order, cmp.Compare(a.key, b.key)) })
	err := l.attempt(calls)
	if err != nil && len(calls) > 1 && code(err) != "" && l.conn != nil {
		locked := code(err) == lockTimeout
		for _, c := range calls {
			c.rows, c.answered = nil, false
			if locked && c.st == &l.s.st.release {
				c.args[waitArg] = nil // for nobody
			}
			c.finish(l.attempt([]*call{c}))
		}
		return
	}
	for _, c := range calls {
		c.finish(err)
	}
}

// close ends what is under way, and the connection.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.cut()
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
	l.drop()
}
