package rueidisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// minTrips is how many round trips to a nearby server may be in flight before calls are held
	// back to be sent together. With fewer, the server is idle while answers are read. With more,
	// each round trip carries fewer calls.
	minTrips = 3

	// busyLoad is the number of simultaneous calls from which it pays to hold calls back although
	// fewer round trips are in flight.
	busyLoad = 8

	// maxTrips is how many round trips to a distant server may be in flight, and tripSpacing is
	// the time between their starts. A held call waits no longer than tripSpacing, while it waits
	// for a whole round trip anyway.
	maxTrips, tripSpacing = 64, 100 * time.Microsecond

	// fresh is how long after an answer the server counts as reachable.
	fresh = 50 * time.Millisecond

	// abandonedLimit bounds a call whose caller has left. The call is sent all the same: it may be
	// a release.
	abandonedLimit = 5 * time.Second

	// maxMerged is how many calls are sent as one: the server does nothing else meanwhile.
	maxMerged = 64

	// maxQueued is how many calls are held back before the calls of callers that leave are
	// dropped.
	maxQueued = 1024
)

// A batcher sends calls to one server. While few round trips are in flight, the caller's goroutine
// sends its call at once. Otherwise the batcher holds the call back until a round trip ends, and
// sends it together with all calls that arrived in the meantime: a write to a socket, and waking
// the goroutine at the other end, cost several times as much as the rest of a call.
//
// A worker goroutine of the batcher sends each batch, so that each caller can leave when its own
// ctx ends. A worker also sends a call to a server that has not answered for a while, and a call
// that can be cancelled, unless it has a connection of its own or the shared one is busy: in the
// caller's goroutine, rueidis observes only the deadline while it waits for an answer, and nothing
// at all while it connects. The way through a worker takes 20 us, a third of a call, and so is not
// the default.
type batcher struct {
	c      rueidis.Client
	single bool // c is a client of one server, which it never replaces by another

	mu        sync.Mutex
	wake      sync.Cond     // the queue may be ready to send, or the batcher is closed
	queue     []*call       // calls that are held back
	trips     int           // round trips in flight
	carried   int           // calls in those round trips
	load      int           // recent number of simultaneous calls, held back or in flight
	abandoned int           // calls in flight whose callers have left
	workers   int           // goroutines
	idle      int           // workers that wait
	lastReply time.Time     // when the server last answered
	rtt       time.Duration // time of a round trip without delays
	closed    bool
	solos     solos
	wg        sync.WaitGroup
	calls     sync.Pool
}

// A call is sent by a worker, not by its caller.
type call struct {
	ctx   context.Context
	cmd   rueidis.Completed
	merge uint8 // see [redis.Call]
	reply
	done      chan struct{} // capacity 1: the reply is there
	sent      bool          // the call is in flight
	abandoned bool          // its caller has left
}

// A reply is the answer to a command, or to the part of one that several calls were merged into.
type reply struct {
	res    rueidis.RedisResult
	text   string
	merged bool // text is the answer
}

// init prepares the zero batcher for a client.
func (b *batcher) init(c rueidis.Client) {
	b.c, b.single = c, c.Mode() == rueidis.ClientModeStandalone
	b.wake.L = &b.mu
	b.calls.New = func() any { return &call{done: make(chan struct{}, 1)} }
}

// send sends a command, which may be merged with others, and returns the answer.
func (b *batcher) send(ctx context.Context, cmd rueidis.Completed, merge uint8) reply {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return reply{res: rueidis.NewErrorResult(errClosed)}
	}
	if began := time.Now(); b.mayStart(1) && b.abandoned == 0 && len(b.queue) == 0 &&
		began.Sub(b.lastReply) < fresh {
		quiet := b.quiet()
		own := b.take(ctx, began)
		if own != nil || !quiet || !cancellable(ctx) {
			return reply{res: b.sendNow(ctx, cmd, own, began)}
		}
	}
	c := b.calls.Get().(*call)
	c.ctx, c.cmd, c.merge = ctx, cmd, merge
	b.queue = append(b.queue, c)
	b.wakeWorker()
	b.mu.Unlock()
	parent, limit := ends(ctx)
	select {
	case <-c.done:
		r := c.reply
		*c = call{done: c.done}
		b.calls.Put(c)
		return r
	case <-parent:
	case <-limit:
	}
	b.abandon(c)
	return reply{res: rueidis.NewErrorResult(context.Cause(ctx))}
}

// sendNow sends a command in the goroutine of its caller. It is called with mu held, and releases
// it.
func (b *batcher) sendNow(ctx context.Context, cmd rueidis.Completed, own *solo, began time.Time) rueidis.RedisResult {
	b.trips++
	b.carried++
	if own != nil {
		own.ctx = ctx
	}
	b.mu.Unlock()
	res := b.conn(own).Do(ctx, cmd)
	b.mu.Lock()
	b.put(own, res)
	b.finished(began, 1, res)
	b.wakeWorker()
	b.mu.Unlock()
	if own != nil && res.NonRedisError() != nil && ctx.Err() != nil {
		return rueidis.NewErrorResult(context.Cause(ctx)) // see look
	}
	return res
}

// cancellable reports whether ctx may end before its deadline.
func cancellable(ctx context.Context) bool {
	parent, _ := ends(ctx)
	return parent != nil
}

// ends returns two channels, and ctx has ended when one of them is closed. The context of a Lock
// has such a pair: Done would make a channel, a timer and an entry in the caller's context, for
// every call.
func ends(ctx context.Context) (parent, limit <-chan struct{}) {
	if c, ok := ctx.(interface {
		Ends() (parent, limit <-chan struct{})
	}); ok {
		return c.Ends()
	}
	return ctx.Done(), nil
}

// abandon notes that the caller has left. A call in flight continues, and the batcher sends nothing
// else until that call ends: the next call may undo it and must not overtake it. For the same
// reason a held call is still sent.
func (b *batcher) abandon(c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.abandoned = true
	switch {
	case c.sent:
		b.abandoned++
	case len(b.queue) > maxQueued:
		b.queue = slices.DeleteFunc(b.queue, func(o *call) bool { return o == c })
	}
}

// work is a worker: it sends batches of held calls until the batcher is closed.
func (b *batcher) work() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for !b.ready() {
			if b.closed && len(b.queue) == 0 {
				b.wake.Broadcast() // other workers may wait since before the queue became empty
				return
			}
			b.idle++
			b.wake.Wait()
			b.idle--
		}
		b.trips++
		batch := b.queue
		b.queue = nil
		b.carried += len(batch)
		ctx, cancel := tripContext(batch)
		for _, c := range batch {
			if c.sent = true; c.abandoned {
				b.abandoned++
			}
		}
		began := time.Now()
		own := b.take(ctx, began)
		b.mu.Unlock()
		last := roundTrip(ctx, b.conn(own), batch)
		cancel()
		b.mu.Lock()
		b.put(own, last)
		b.finished(began, len(batch), last)
		for _, c := range batch {
			if c.sent = false; c.abandoned {
				b.abandoned--
			}
		}
		b.wakeWorker()
		b.mu.Unlock() // the callers need mu for their next calls
		for _, c := range batch {
			c.done <- struct{}{}
		}
		b.mu.Lock()
	}
}

// roundTrip sends a batch and reads the answers. It merges calls where it may, and repeats those
// that were not done that way. It returns the last answer.
func roundTrip(ctx context.Context, conn conn, batch []*call) (last rueidis.RedisResult) {
	if len(batch) == 1 {
		batch[0].res = conn.Do(ctx, batch[0].cmd)
		return batch[0].res
	}
	groups := group(batch)
	cmds := make(rueidis.Commands, len(groups))
	for i, g := range groups {
		cmds[i] = merged(conn.B(), g)
	}
	var again []*call
	for i, res := range conn.DoMulti(ctx, cmds...) {
		last = res
		var texts []string
		if len(groups[i]) > 1 && res.Error() == nil {
			text, _ := res.ToString()
			texts = strings.Split(text, "\n")
		}
		for j, c := range groups[i] {
			c.res = res
			switch {
			case len(groups[i]) == 1 || res.NonRedisError() != nil:
			case len(texts) == len(groups[i]) && texts[j] != "-":
				c.text, c.merged = texts[j], true
			default:
				c.merge = 0
				again = append(again, c)
			}
		}
	}
	if len(again) > 0 {
		last = roundTrip(ctx, conn, again)
	}
	return last
}

// group returns the calls of a batch, in groups that are one command each. A call that may undo
// another one comes after it. The other one is by itself then: if it was not done as a part of a
// command, its repetition would come after the call that undoes it.
func group(batch []*call) [][]*call {
	groups := make([][]*call, 0, len(batch))
	ordered := slices.Clone(batch)
	undoes := map[string]uint8{} // the largest merge of each owner's calls
	for _, c := range batch {
		if c.merge > 0 {
			undoes[c.owner()] = max(undoes[c.owner()], c.merge)
		}
	}
	for _, c := range batch {
		if c.merge > 0 && c.merge < undoes[c.owner()] {
			c.merge = 0
		}
	}
	slices.SortStableFunc(ordered, func(a, b *call) int { return int(a.merge) - int(b.merge) })
	first := 0
	for i, c := range ordered {
		if end := i + 1; end == len(ordered) || c.merge == 0 || ordered[end].merge != c.merge || end-first == maxMerged {
			groups = append(groups, ordered[first:end])
			first = end
		}
	}
	return groups
}

// begin is where the key and the arguments of a call begin: after EVALSHA, the script, and the
// number of keys, which is 1.
const begin = 3

// owner returns the first argument of a call that may be merged.
func (c *call) owner() string { return c.cmd.Commands()[begin+1] }

// merged returns the command of a group.
func merged(b rueidis.Builder, calls []*call) rueidis.Completed {
	if len(calls) == 1 {
		return calls[0].cmd
	}
	first := calls[0].cmd.Commands()
	texts := make([]string, 0, len(calls)*len(first))
	for _, c := range calls {
		texts = append(texts, c.cmd.Commands()[begin])
	}
	for _, c := range calls {
		texts = append(texts, c.cmd.Commands()[begin+1:]...)
	}
	return b.Arbitrary(first[0], first[1], strconv.Itoa(len(calls))).Args(texts...).Build().ToPipe()
}

// tripContext returns the context of a round trip. It ends at the latest deadline of the calls: a
// caller that leaves must not end the calls of others.
func tripContext(batch []*call) (context.Context, context.CancelFunc) {
	if len(batch) == 1 && !batch[0].abandoned {
		return batch[0].ctx, func() {}
	}
	var last time.Time
	for _, c := range batch {
		d, ok := c.ctx.Deadline()
		switch {
		case c.abandoned:
			d = time.Now().Add(abandonedLimit)
		case !ok:
			return context.Background(), func() {}
		}
		if d.After(last) {
			last = d
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// close ends the workers after all queued calls are answered.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.solos.drop(func(s *solo) bool { return !s.taken })
	b.wake.Broadcast()
	b.mu.Unlock()
	b.wg.Wait()
}

// The methods below are called with mu held.

// quiet reports whether the connection that rueidis shares has no call in flight. The next call on
// it observes only the deadline of its ctx: rueidis reads the answer in the goroutine of the call.
func (b *batcher) quiet() bool { return b.trips == b.solos.taken() }

// ready reports whether the queued calls may be sent.
func (b *batcher) ready() bool {
	return len(b.queue) > 0 && b.mayStart(len(b.queue)) && b.abandoned == 0
}

// mayStart reports whether a round trip with so many calls may start now. Under load, the calls to
// a nearby server go in equal shares: callers that were answered together come back one after the
// other. If the first of them went alone, the others would wait for the server, and the server for
// them.
func (b *batcher) mayStart(calls int) bool {
	limit := b.tripLimit()
	switch {
	case b.trips == 0:
		return true
	case b.trips >= limit:
		return false
	}
	return limit > minTrips || b.load < busyLoad || calls >= b.load/minTrips
}

// tripLimit returns how many round trips may be in flight.
func (b *batcher) tripLimit() int { return min(max(minTrips, int(b.rtt/tripSpacing)), maxTrips) }

// wakeWorker wakes or starts a worker if the queue may be sent.
func (b *batcher) wakeWorker() {
	switch {
	case !b.ready():
	case b.idle > 0:
		b.wake.Signal()
	case b.workers < b.tripLimit():
		b.workers++
		b.wg.Go(b.work)
	}
}

// finished notes that a round trip with so many calls has ended. A round trip of many calls takes
// longer than the way to the server, and so does not raise rtt.
func (b *batcher) finished(began time.Time, calls int, res rueidis.RedisResult) {
	b.load = max(b.carried+len(b.queue), b.load-b.load/8)
	b.trips--
	b.carried -= calls
	if res.NonRedisError() != nil {
		return
	}
	b.lastReply = time.Now()
	switch took := b.lastReply.Sub(began); {
	case took < b.rtt, b.rtt == 0:
		b.rtt = took
	case calls == 1:
		b.rtt += (took - b.rtt) / 64
	}
}
