package keeper

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

const (
	// batchSize is how many holds one round trip renews at most. More would keep a
	// store busy for so long that others notice.
	batchSize = 500

	// lookEvery is how often the keeper looks at the clock while anything is held: the
	// timers of Go stand still while the machine is suspended.
	lookEvery = time.Second
)

// A Send renews many claims, as driver.RenewAll does.
type Send func(ctx context.Context, rs []driver.Renewal) []driver.Renewed

// A Keeper renews all holds of a process on one schedule. It has no goroutine of its own: a
// timer wakes it, and a goroutine lives as long as a batch of renewals is under way.
type Keeper struct {
	send  Send
	clock *Clock

	mu     sync.Mutex
	queue  queue // all holds that have not ended, by when they need a look
	timer  *time.Timer
	wake   time.Duration // when the timer fires, in time awake: it stands still while the machine is suspended
	closed bool
	wg     sync.WaitGroup // renewals and looks under way
}

// New returns a keeper that renews through send.
func New(clock *Clock, send Send) *Keeper {
	return &Keeper{send: send, clock: clock, wake: never}
}

// Keep keeps a claim that was granted by a request sent at sent, until Stop or its loss. It returns
// nil if there is no trust left to begin with: then the claim was never held.
func (k *Keeper) Keep(id driver.ID, terms Terms, sent time.Duration, listener Listener) *Hold {
	h := new(Hold)
	if !k.KeepProvisional(h, id, terms, sent, 0, listener) {
		return nil
	}
	return h
}

// KeepProvisional is Keep for a claim that was given only so much of its TTL to live from sent on; 0: all of it. It is renewed
// soon. The hold is made in h, which nobody has used.
func (k *Keeper) KeepProvisional(h *Hold, id driver.ID, terms Terms, sent, life time.Duration, listener Listener) bool {
	h.k, h.id, h.listener, h.terms, h.index = k, id, listener, terms, -1
	k.mu.Lock()
	defer k.mu.Unlock()
	h.bound(terms.MaxHold)
	h.renewed(sent)
	if life > 0 {
		h.young = true
		h.valid = sent + life - Margin(life)
		h.renew = k.clock.Now() + jitter(youth)
	}
	if k.closed || k.clock.Now() >= h.valid {
		return false
	}
	h.plan()
	return true
}

// Close ends all renewing. It returns when none is under way, nor any call of a listener, so none
// may call it. What is still held is neither released nor told.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for len(k.queue) > 0 {
		k.queue[0].stop()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// put puts h where it belongs in the queue, and the timer with it.
func (k *Keeper) put(h *Hold) {
	if h.index < 0 {
		heap.Push(&k.queue, h)
	} else {
		heap.Fix(&k.queue, h.index)
	}
	k.arm()
}

// drop takes h out of the queue. The timer may fire for nothing: cheaper than to set it.
func (k *Keeper) drop(h *Hold) {
	if h.index >= 0 {
		heap.Remove(&k.queue, h.index)
	}
}

// arm sets the timer if the first of the queue is due before it would fire.
func (k *Keeper) arm() {
	if len(k.queue) == 0 || k.closed || k.queue[0].at-k.clock.Slept() >= k.wake {
		return
	}
	now := k.clock.Now()
	d := max(0, min(k.queue[0].at-now, lookEvery))
	wake := now + d - k.clock.Slept()
	if wake >= k.wake {
		return
	}
	k.wake = wake
	if k.timer == nil {
		k.timer = time.AfterFunc(d, k.look)
	} else {
		k.timer.Reset(d)
	}
}

// look tells the losses and sends the renewals that are due.
func (k *Keeper) look() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.wg.Add(1)
	defer k.wg.Done()
	k.wake = never
	now := k.clock.Now()
	var lost, due, aside []*Hold
	open := map[int]bool{} // the sizes of which a renewal is due
	horizon := now
	for len(k.queue) > 0 && k.queue[0].at <= horizon {
		h := k.queue[0]
		k.drop(h)
		until, soon, size := time.Duration(h.until.Load()), now+h.terms.TTL/12, h.size()
		switch {
		case now >= until:
			h.lose(h.overdue())
			lost = append(lost, h)
		case h.under == nil && (h.renew <= now || open[size] && h.renew <= soon):
			// Whoever of its size would be due soon comes along: one round trip for
			// many, and the jitter does not tear them apart. Other sizes are
			// left alone: to come early for a few would tear those apart.
			open[size] = true
			horizon = max(horizon, soon)
			due = append(due, h)
		default:
			aside = append(aside, h)
		}
	}
	for _, h := range aside {
		k.put(h)
	}
	for _, b := range k.batches(due, now) {
		k.wg.Go(b.run)
	}
	k.arm()
	k.mu.Unlock()
	for i, h := range lost {
		if i < len(lost)-1 {
			k.wg.Go(h.tell) // a listener that takes its time holds up its own news only
		} else {
			h.tell()
		}
	}
}

// batches sorts holds by the size of their TTL, since a batch has to be answered within a part
// of the shortest one, and puts them back into the queue with a renewal under way. Those that would only make a last
// batch that is not full, and are not due yet, go back without: they fill the next one.
func (k *Keeper) batches(due []*Hold, now time.Duration) []*batch {
	groups := map[int][]*Hold{}
	for _, h := range due {
		groups[h.size()] = append(groups[h.size()], h)
	}
	var out []*batch
	for _, group := range groups {
		for part := range slices.Chunk(group, batchSize) {
			if len(part) < batchSize && len(group) > batchSize && part[0].renew > now {
				for _, h := range part {
					k.put(h)
				}
				break
			}
			b := newBatch(context.Background(), nil)
			b.run = func() { k.renew(b) }
			out = append(out, b)
			for _, h := range part {
				b.add(h)
				h.plan()
			}
		}
	}
	return out
}

// renew sends one batch.
func (k *Keeper) renew(b *batch) {
	k.mu.Lock()
	limit := never
	rs := make([]driver.Renewal, len(b.holds))
	for i, h := range b.holds {
		rs[i] = driver.Renewal{ID: h.id, TTL: h.terms.StoreTTL()}
		limit = min(limit, h.limit())
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	sent := k.clock.Now()
	k.settle(b, sent, k.send(ctx, rs))
}

// settle notes the answers to a batch and tells them.
func (k *Keeper) settle(b *batch, sent time.Duration, out []driver.Renewed) {
	k.mu.Lock()
	now := k.clock.Now()
	for i, h := range b.holds {
		h.under = nil
		if h.ended == nil {
			h.answered(sent, now, out[i])
		}
	}
	k.mu.Unlock()
	// Those who wait in Stop go on now: a listener may take its time, or wait in Stop itself.
	b.end()
	for _, h := range b.holds {
		h.tell()
	}
}

// A batch is a renewal of some holds that is under way.
type batch struct {
	holds  []*Hold
	stay   int // how many of them still care; guarded by the keeper's lock
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when no hold has to do with the batch any more
	run    func()
}

func newBatch(ctx context.Context, run func()) *batch {
	b := &batch{done: make(chan struct{}), run: run}
	b.ctx, b.cancel = context.WithCancel(ctx)
	return b
}

func (b *batch) add(h *Hold) {
	h.under = b
	b.holds = append(b.holds, h)
	b.stay++
}

// leave says that one hold of the batch no longer cares. A batch nobody cares about is cut short.
func (b *batch) leave() {
	if b.stay--; b.stay == 0 {
		b.cancel()
	}
}

// wait waits for the end of the batch, or of ctx.
func (b *batch) wait(ctx context.Context) error {
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *batch) end() {
	b.cancel()
	close(b.done)
}

// A queue is a heap of holds, the one to look at first on top.
type queue []*Hold

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	h := x.(*Hold)
	h.index = len(*q)
	*q = append(*q, h)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	h.index = -1
	return h
}
