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
	// batchSize is how many holds one round trip renews at most. A larger batch would keep the
	// store busy for so long that other clients notice.
	batchSize = 500

	// checkEvery is how often the keeper reads the clock while it has holds. Go's timers stand
	// still while the machine is suspended.
	checkEvery = time.Second
)

// A Send renews many claims, as [driver.RenewAll] does.
type Send func(ctx context.Context, rs []driver.Renewal) []driver.Renewed

// A Keeper renews all holds of a process on one schedule. It has no goroutine of its own: a timer
// wakes it, and each batch of renewals has a goroutine while it is in flight.
type Keeper struct {
	send  Send
	clock *Clock

	mu     sync.Mutex
	queue  queue // all holds that have not ended, in order of their next check
	timer  *time.Timer
	wake   time.Duration // when the timer fires, in time awake: timers stop while the machine is suspended
	closed bool
	wg     sync.WaitGroup // renewals and checks under way
}

// New returns a keeper that renews through send.
func New(clock *Clock, send Send) *Keeper {
	return &Keeper{send: send, clock: clock, wake: never}
}

// Keep keeps a claim until [Hold.Stop] or its loss. The store granted the claim by a request sent
// at sent. Keep returns nil if no trust is left at the start: the claim was never held then.
func (k *Keeper) Keep(id driver.ID, terms Terms, sent time.Duration, listener Listener) *Hold {
	h := new(Hold)
	if !k.KeepProvisional(h, id, terms, sent, 0, listener) {
		return nil
	}
	return h
}

// KeepProvisional is [Keeper.Keep] for a claim that the store keeps only for life from sent on, and
// not for its TTL; 0: for all of the TTL. The keeper renews such a claim soon. h is a new Hold,
// which KeepProvisional fills in.
func (k *Keeper) KeepProvisional(h *Hold, id driver.ID, terms Terms, sent, life time.Duration, listener Listener) bool {
	h.k, h.id, h.listener, h.terms, h.index = k, id, listener, terms, -1
	k.mu.Lock()
	defer k.mu.Unlock()
	h.bound(terms.MaxHold)
	h.renewed(sent)
	if life > 0 {
		h.provisional = true
		h.valid = sent + life - Margin(life)
		h.renew = k.clock.Now() + jitter(confirmAfter)
	}
	if k.closed || k.clock.Now() >= h.valid {
		return false
	}
	h.plan()
	return true
}

// Close ends all renewals. It returns when no renewal and no call of a listener is under way, so a
// listener must not call it. Holds that have not ended are neither released nor reported to their
// listeners.
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

// put sorts h into the queue and sets the timer.
func (k *Keeper) put(h *Hold) {
	if h.index < 0 {
		heap.Push(&k.queue, h)
	} else {
		heap.Fix(&k.queue, h.index)
	}
	k.arm()
}

// drop removes h from the queue. The timer may fire without need, which costs less than to set it.
func (k *Keeper) drop(h *Hold) {
	if h.index >= 0 {
		heap.Remove(&k.queue, h.index)
	}
}

// arm sets the timer if the first hold of the queue is due before the timer would fire.
func (k *Keeper) arm() {
	if len(k.queue) == 0 || k.closed || k.queue[0].at-k.clock.Slept() >= k.wake {
		return
	}
	now := k.clock.Now()
	d := max(0, min(k.queue[0].at-now, checkEvery))
	wake := now + d - k.clock.Slept()
	if wake >= k.wake {
		return
	}
	k.wake = wake
	if k.timer == nil {
		k.timer = time.AfterFunc(d, k.check)
	} else {
		k.timer.Reset(d)
	}
}

// check reports the losses and sends the renewals that are due.
func (k *Keeper) check() {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return
	}
	k.wg.Add(1)
	defer k.wg.Done()
	k.wake = never
	now := k.clock.Now()
	var lost, due, later []*Hold
	open := map[int]bool{} // the sizes for which a renewal is due
	horizon := now
	for len(k.queue) > 0 && k.queue[0].at <= horizon {
		h := k.queue[0]
		k.drop(h)
		until, soon, size := time.Duration(h.until.Load()), now+h.terms.TTL/12, h.size()
		switch {
		case now >= until:
			h.lose(h.overdue())
			lost = append(lost, h)
		case h.inFlight == nil && (h.renew <= now || open[size] && h.renew <= soon):
			// A hold of the same size that is due soon joins: one round trip renews
			// many, and the jitter does not split the batch. Holds of other sizes
			// wait: to renew a few of those early would split their batch.
			open[size] = true
			horizon = max(horizon, soon)
			due = append(due, h)
		default:
			later = append(later, h)
		}
	}
	for _, h := range later {
		k.put(h)
	}
	for _, b := range k.batches(due, now) {
		k.wg.Go(b.run)
	}
	k.arm()
	k.mu.Unlock()
	for i, h := range lost {
		if i < len(lost)-1 {
			k.wg.Go(h.notify) // a slow listener delays only its own notices
		} else {
			h.notify()
		}
	}
}

// batches groups holds by their size, because a batch must be answered within a part of its
// shortest TTL. It puts the holds back into the queue with a renewal in flight. If the last
// batch is not full and its holds are not due yet, they go back without a renewal and fill the next
// batch.
func (k *Keeper) batches(due []*Hold, now time.Duration) []*batch {
	groups := map[int][]*Hold{}
	for _, h := range due {
		groups[h.size()] = append(groups[h.size()], h)
	}
	var out []*batch
	for _, group := range groups {
		for chunk := range slices.Chunk(group, batchSize) {
			if len(chunk) < batchSize && len(group) > batchSize && chunk[0].renew > now {
				for _, h := range chunk {
					k.put(h)
				}
				break
			}
			b := newBatch(context.Background(), nil)
			b.run = func() { k.renew(b) }
			out = append(out, b)
			for _, h := range chunk {
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

// settle records the answers to a batch and notifies the listeners.
func (k *Keeper) settle(b *batch, sent time.Duration, out []driver.Renewed) {
	k.mu.Lock()
	now := k.clock.Now()
	for i, h := range b.holds {
		h.inFlight = nil
		if h.ended == nil {
			h.answered(sent, now, out[i])
		}
	}
	k.mu.Unlock()
	// Callers that wait in Stop continue before the listeners are called: a listener may be slow,
	// or wait in Stop itself.
	b.end()
	for _, h := range b.holds {
		h.notify()
	}
}

// A batch is one renewal of several holds, in flight.
type batch struct {
	holds  []*Hold
	live   int // how many of them have not ended; guarded by the keeper's lock
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when no hold refers to the batch any more
	run    func()
}

func newBatch(ctx context.Context, run func()) *batch {
	b := &batch{done: make(chan struct{}), run: run}
	b.ctx, b.cancel = context.WithCancel(ctx)
	return b
}

func (b *batch) add(h *Hold) {
	h.inFlight = b
	b.holds = append(b.holds, h)
	b.live++
}

// detach records that one hold of the batch has ended. After the last one the batch is cancelled.
func (b *batch) detach() {
	if b.live--; b.live == 0 {
		b.cancel()
	}
}

// wait blocks until the batch or ctx ends.
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

// A queue is a heap of holds. The hold that must be checked first is on top.
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
