package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// together is how many calls go out in one transaction at most. Each has a lock on its key until the commit.
	together = 64

	// laneLimit bounds a transaction. What takes longer is cut off, and its outcome is unknown.
	laneLimit = 10 * time.Second

	// abandoned is for how long a transaction is left to itself after all its callers have gone: most are answered meanwhile,
	// and the connection can be used on.
	abandoned = 500 * time.Millisecond

	// maxGather bounds how long calls are waited for that may go out together.
	maxGather = time.Millisecond

	// stale is after how long a connection that was not used is asked whether it is there.
	stale = time.Second
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
type lane struct {
	s      *Store
	ctx    context.Context // over when the lane is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	queue    []*call
	running  bool
	closed   bool
	under    *batch   // the last that was begun
	wire     net.Conn // on which something is under way
	wanted   int      // at how many calls gathered is closed; 0: it is not waited for
	gathered chan struct{}

	// The rest belongs to the goroutine that runs.
	conn     *pgx.Conn
	server   *server
	prepared map[*statement]string
	used     time.Time // when the connection was last heard of
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
	if len(l.queue) == l.wanted {
		close(l.gathered)
		l.wanted = 0
	}
	if !l.running {
		l.running = true
		l.wg.Go(l.run)
	}
	l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		l.leave(c)
		return ctx.Err()
	}
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

// run sends what waits until nothing does.
func (l *lane) run() {
	var last int           // how many calls went out together
	var took time.Duration // and how long that took
	for {
		l.gather(last, took)
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		n := min(len(l.queue), together)
		b := &batch{calls: slices.Clone(l.queue[:n])}
		l.queue = append(l.queue[:0], l.queue[n:]...)
		for _, c := range b.calls {
			c.batch = b
		}
		b.live.Store(int32(n))
		l.under = b
		b.lane = l
		l.mu.Unlock()
		began := time.Now()
		l.send(b.calls)
		last, took = n, time.Since(began)
	}
}

// gather waits a little until as many calls have come as went out together before: their callers have just been answered, and most
// come back. To go out with the first of them would make all others wait for one.
func (l *lane) gather(n int, took time.Duration) {
	if n < 2 {
		return
	}
	l.mu.Lock()
	if len(l.queue) >= n || l.closed {
		l.mu.Unlock()
		return
	}
	l.wanted, l.gathered = n, make(chan struct{})
	gathered := l.gathered
	l.mu.Unlock()
	limit := time.NewTimer(min(took/8, maxGather))
	defer limit.Stop()
	select {
	case <-gathered:
	case <-limit.C:
	case <-l.ctx.Done():
	}
	l.mu.Lock()
	l.wanted = 0
	l.mu.Unlock()
}

// send runs calls in one transaction. If the server refuses one, and with it all, each is run alone: one that cannot be
// done hurts no other.
func (l *lane) send(calls []*call) {
	// What makes room comes first, and keys have one order everywhere, so that nobody waits in a circle.
	slices.SortStableFunc(calls, func(a, b *call) int { return cmp.Or(a.st.order-b.st.order, cmp.Compare(a.key, b.key)) })
	err := l.attempt(calls)
	if err != nil && len(calls) > 1 && code(err) != "" && l.conn != nil {
		for _, c := range calls {
			c.rows, c.answered = nil, false
			c.finish(l.attempt([]*call{c}))
		}
		return
	}
	for _, c := range calls {
		c.finish(err)
	}
}

func (c *call) finish(err error) {
	c.err = definite(err, c.answered)
	close(c.done)
}

// attempt sends calls and reads the answers. If it fails, the server has done none of them, or it is not known.
func (l *lane) attempt(calls []*call) error {
	groups := grouped(calls)
	if err := l.connect(groups); err != nil {
		l.drop()
		return unavailable(err) // nothing was sent
	}
	pg := l.conn.PgConn()
	l.begin(pg.Conn())
	defer l.end()
	var b pgconn.Batch
	for _, g := range groups {
		if l.server.pooled {
			b.ExecParams(g.st.sql, g.args, nil, g.st.formats, g.st.results)
		} else {
			b.ExecPrepared(l.prepared[g.st], g.args, g.st.formats, g.st.results)
		}
	}
	answers := pg.ExecBatch(context.Background(), &b) // the deadline of the connection is cheaper than a ctx
	var first error
	for _, g := range groups {
		if !answers.NextResult() {
			break
		}
		r := answers.ResultReader().Read()
		if first = r.Err; first != nil {
			break
		}
		g.deal(r.Rows)
	}
	err := answers.Close()
	if err != nil {
		err = sent(cmp.Or(first, err))
	}
	if pg.IsClosed() || l.ctx.Err() != nil {
		l.drop()
	}
	l.used = time.Now()
	return err
}

// sent is an error of a statement that was sent. After the first error pgx says of all others that nothing was sent, which is true of
// them alone.
func sent(err error) error {
	if code(err) == "" {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// begin bounds what is sent from now on, and lets cut end it.
func (l *lane) begin(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wire = conn
	_ = conn.SetDeadline(time.Now().Add(laneLimit)) // if it cannot be set, the next write fails
	if l.closed {
		l.cut()
	}
}

func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wire != nil {
		_ = l.wire.SetDeadline(time.Time{})
	}
	l.wire = nil
}

// cut ends what is under way. The lock is held.
func (l *lane) cut() {
	if l.wire != nil {
		_ = l.wire.SetDeadline(time.Unix(1, 0))
	}
}

// connect sees to it that there is a connection, that it is alive and that it knows the statements.
func (l *lane) connect(groups []group) error {
	ctx, cancel := l.ctx, func() {}
	if l.conn == nil || time.Since(l.used) > stale {
		ctx, cancel = context.WithTimeout(l.ctx, laneLimit)
	}
	defer cancel()
	if l.conn != nil && l.conn.IsClosed() {
		l.drop()
	}
	if l.conn != nil && time.Since(l.used) > stale {
		probe, cancel := context.WithTimeout(ctx, stale)
		err := l.conn.PgConn().Ping(probe)
		cancel()
		if err != nil {
			l.drop()
		}
	}
	if l.conn == nil {
		conn, err := l.s.connect(ctx)
		if err != nil {
			return err
		}
		l.conn, l.prepared = conn, map[*statement]string{}
		if l.server, err = l.s.prepare(ctx, conn); err != nil {
			return err
		}
	}
	if l.server.pooled {
		return nil // the next statement may find another backend, which knows none of ours
	}
	for _, g := range groups {
		if _, ok := l.prepared[g.st]; ok {
			continue
		}
		name := newName()
		if _, err := l.conn.PgConn().Prepare(ctx, name, g.st.sql, nil); err != nil {
			return definite(err, false)
		}
		l.prepared[g.st] = name
	}
	return nil
}

func (l *lane) drop() {
	if l.conn != nil {
		closeConn(l.conn)
		l.conn, l.server, l.prepared = nil, nil, nil
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
