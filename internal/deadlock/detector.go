package deadlock

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// The last task of a cycle that begins to wait posts its notices after a second. The victim looks
// at the latest 400 ms later, and again after 200 ms: 1.6 s, and 400 ms are left for the store.
const (
	patience  = time.Second            // how long a call waits before its detector starts to look
	lookEvery = 400 * time.Millisecond // how often the detector looks from then on
	lookAgain = 200 * time.Millisecond // how soon it looks a second time at a cycle

	// noticeTTL is how long a notice outlives its task. It is less than patience and lookAgain
	// together: a process that died is in no cycle with a task that begins to wait later, which would
	// have to see the notice two times.
	noticeTTL = 1100 * time.Millisecond

	// maxNotices bounds how many leases of a task have notices.
	maxNotices = 64

	// removeLimit bounds how long the removal of notices takes.
	removeLimit = time.Second
)

// A Lease is what a detector needs of a lease that its task holds.
type Lease interface {
	Err() error
	Context(context.Context) context.Context
}

// A Held is a lease that the waiting task holds.
type Held struct {
	Lease
	Key   string
	Owner string        // its tag: see driver.Tag
	Fence uint64        // of the lease
	Since time.Duration // when it was granted, by the clock of the Config
}

// A Demand is what a claim needs to be granted.
type Demand struct {
	Weight int64 `json:"weight"`
	Limit  int64 `json:"limit"`
}

// A Wait is what a task waits for.
type Wait struct {
	Key    string
	Holder string
	Demand
	Entry string   // the tag of the queue entry with which the process waits; empty: it has none
	Ahead []Demand // what other calls of the process want first
}

// A Waiter is the call that a detector belongs to.
type Waiter interface {
	// Begin is called before the detector looks for the first time, and end when it has ended. If end
	// is nil, the detector does not start.
	Begin() (end func())

	// Snapshot returns what the call waits for. It is false when the call does not wait any more.
	Snapshot() (Wait, bool)

	// Fail ends the wait because of a cycle.
	Fail(*Cycle)
}

// A Config is what the detectors of a Locker share.
type Config struct {
	Store driver.Store
	Now   func() time.Duration
	Key   func(tag string) string // the key of the notices about an owner
}

// Supported reports whether a store can hold notices, and can list who waits.
func Supported(f *driver.Features) bool {
	return f.Queue && f.Value && f.MinTTL <= noticeTTL && (f.MaxTTL == 0 || f.MaxTTL >= noticeTTL)
}

// A Detector looks for a deadlock while one call waits: see the package comment.
type Detector struct {
	Config
	waiter  Waiter
	task    string // its random name
	notices []*notice
	since   time.Duration // when the call began to wait

	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	ended  chan struct{} // a lease has ended
	done   chan struct{} // closed when nothing of it runs any more
}

// Start starts a detector for a call that waits. It looks for nothing during the first second. It
// ends with ctx, or with Stop.
func Start(ctx context.Context, c Config, held []Held, w Waiter) *Detector {
	d := &Detector{Config: c, waiter: w, task: rand.Text(), since: c.Now(), ended: make(chan struct{}, 1), done: make(chan struct{})}
	for _, h := range held[:min(len(held), maxNotices)] {
		d.notices = append(d.notices, &notice{held: h, id: driver.ID{Key: c.Key(h.Owner), Owner: rand.Text()}})
	}
	d.ctx, d.cancel = context.WithCancel(ctx)
	d.timer = time.AfterFunc(patience, d.run)
	return d
}

// Stop ends the detector. It returns a channel that is closed when the notices are removed, or nil
// if there were none. A nil Detector may be stopped.
func (d *Detector) Stop() <-chan struct{} {
	if d == nil {
		return nil
	}
	d.cancel()
	if d.timer.Stop() {
		return nil
	}
	return d.done
}

// run posts notices and looks for a cycle, until the wait ends or its call fails.
func (d *Detector) run() {
	defer close(d.done)
	end := d.waiter.Begin()
	if end == nil {
		return
	}
	defer end()
	defer d.removeAll()
	d.listen()
	last, pause := "", lookAgain // tasks that began to wait at the same time may not all have posted yet
	for d.ctx.Err() == nil {
		self := d.post()
		if self == nil {
			return
		}
		now := ""
		c, err := d.findCycle(self)
		if err == nil && c != nil { // a look that failed saw nothing
			now = c.fingerprint()
			pause = lookAgain
		}
		if now != "" && now == last && c.victim() == self {
			// Other tasks that look from now on do not count this one, and find no other victim.
			d.removeAll()
			d.waiter.Fail(c)
			return
		}
		d.pause(pause)
		last, pause = now, lookEvery
	}
}

// listen makes the detector look as soon as one of the leases has ended.
func (d *Detector) listen() {
	for _, n := range d.notices {
		context.AfterFunc(n.held.Context(d.ctx), func() {
			select {
			case d.ended <- struct{}{}:
			default: // it will look already
			}
		})
	}
}

func (d *Detector) pause(p time.Duration) {
	timer := time.NewTimer(p)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ended:
	case <-d.ctx.Done():
	}
}

// snapshot returns what the call waits for, as a node of the graph: nil if it does not wait any
// more.
func (d *Detector) snapshot() *node {
	w, waits := d.waiter.Snapshot()
	if !waits {
		return nil
	}
	return &node{task: d.task, Wait: w, waited: d.Now() - d.since}
}

// post posts the notices, or renews them, and returns what they say: nil if the call does not wait
// any more. A notice that the store does not take now is posted at the next look.
func (d *Detector) post() *node {
	d.dropEnded()
	self := d.snapshot()
	if self == nil || len(d.notices) == 0 {
		return nil
	}
	now := d.Now()
	call, cancel := context.WithTimeout(d.ctx, noticeTTL)
	defer cancel()
	var old []*notice
	var renewals []driver.Renewal
	for _, n := range d.notices {
		c := content{
			Key: n.held.Key, Fence: n.held.Fence, Held: now - n.held.Since,
			Wants: self.Key, Waited: now - d.since, Demand: self.Demand, Entry: self.Entry, Ahead: self.Ahead,
		}
		self.hold(claimID{c.Key, n.held.Owner}, holding{c.Fence, c.Held})
		if !n.posted {
			d.postNew(call, n, c, self.Holder)
			continue
		}
		old, renewals = append(old, n), append(renewals, driver.Renewal{ID: n.id, TTL: noticeTTL, Value: n.changed(c)})
	}
	if len(old) == 0 {
		return self
	}
	for i, r := range driver.RenewAll(call, d.Store, renewals) {
		if errors.Is(r.Err, driver.ErrNotHeld) {
			old[i].id.Owner, old[i].posted = rand.Text(), false
		} else if r.Err != nil {
			old[i].text = nil // it is not known which text the store has
		}
	}
	return self
}

// postNew posts a notice for the first time.
func (d *Detector) postNew(ctx context.Context, n *notice, c content, holder string) {
	again := n.text != nil
	n.text = c.text()
	res, err := d.Store.Acquire(ctx, driver.Request{
		ID: n.id, Weight: 1, Limit: driver.Whole, TTL: noticeTTL, Holder: holder, Task: d.task, Value: n.text,
	})
	n.posted = err == nil && res.Granted
	if n.posted && again {
		n.text = nil // an attempt that was not answered may have been granted: its text stays
	}
}

// dropEnded removes the notices of leases that have ended: a call may outlive what its context
// holds, if it waits under context.WithoutCancel.
func (d *Detector) dropEnded() {
	over := func(n *notice) bool { return n.held.Err() != nil }
	if !slices.ContainsFunc(d.notices, over) {
		return
	}
	call, cancel := d.lastCall()
	defer cancel()
	d.notices = slices.DeleteFunc(d.notices, func(n *notice) bool {
		if !over(n) {
			return false
		}
		d.remove(call, n)
		return true
	})
}

// removeAll removes all notices. What the store does not answer ends by itself.
func (d *Detector) removeAll() {
	call, cancel := d.lastCall()
	defer cancel()
	for _, n := range d.notices {
		d.remove(call, n)
	}
	d.notices = nil
}

// lastCall returns a context for removals, which are also made when the wait has ended.
func (d *Detector) lastCall() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(d.ctx), removeLimit)
}

func (d *Detector) remove(ctx context.Context, n *notice) {
	if n.text != nil || n.posted { // it may be in the store
		_ = d.Store.Release(ctx, n.id)
	}
}
