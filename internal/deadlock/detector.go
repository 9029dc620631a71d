package deadlock

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// A victim is found within 2 s. The task that closes the cycle posts its notices after 1 s. The
// victim checks the graph at most 400 ms later, and again after 200 ms. That leaves 400 ms for the
// store.
const (
	patience  = time.Second            // how long a call waits before its first check
	lookEvery = 400 * time.Millisecond // the pause between checks
	lookAgain = 200 * time.Millisecond // the pause before the second check of a cycle

	// noticeTTL is how long a notice outlives its task. It is less than patience plus lookAgain. A
	// task that begins to wait after a process died would have to see the notices of that process
	// two times, so it finds no cycle with a dead process.
	noticeTTL = 1100 * time.Millisecond

	// maxNoticeTTL bounds the MinTTL of a store whose deadlocks are detected.
	maxNoticeTTL = 5 * time.Second

	// maxNotices bounds how many leases of a task have notices.
	maxNotices = 64

	// removeLimit bounds how long the removal of notices takes.
	removeLimit = time.Second
)

// A Lease is the part of a lease that a detector needs.
type Lease interface {
	Err() error
	Context(context.Context) context.Context
}

// A Held is a lease that the waiting task holds.
type Held struct {
	Lease
	Key   string
	Owner string        // the tag of the owner: see [driver.Tag]
	Fence uint64        // of the lease
	Since time.Duration // when it was granted, by the clock of the Config
}

// A Demand is the capacity that a claim needs to be granted: used capacity + Weight <= Limit.
type Demand struct {
	Weight int64 `json:"weight"`
	Limit  int64 `json:"limit"`
}

// A Wait describes the claim that a task waits for.
type Wait struct {
	Key    string
	Holder string
	Demand
	Entry string   // the tag of the process's queue entry; empty: it has none
	Ahead []Demand // the demands of other calls of the process that come first
}

// A Waiter is the call that a detector belongs to.
type Waiter interface {
	// Begin is called before the first check. The detector calls end when it has ended. If end is
	// nil, the detector does not start.
	Begin() (end func())

	// Snapshot returns the claim that the call waits for. It returns false if the call no longer
	// waits.
	Snapshot() (Wait, bool)

	// Fail ends the wait because of a cycle.
	Fail(*Cycle)
}

// A Config is shared by the detectors of a Locker.
type Config struct {
	Store driver.Store
	Now   func() time.Duration
	Key   func(tag string) string // the key of the notices about an owner
}

// Supported reports whether a store can hold notices, and can list its queues.
func Supported(f *driver.Features) bool {
	return f.Queue && f.Value && f.MinTTL <= maxNoticeTTL && (f.MaxTTL == 0 || f.MaxTTL >= noticeTTL)
}

// A Detector looks for a deadlock while one call waits: see the package comment.
type Detector struct {
	Config
	waiter  Waiter
	task    string // its random name
	notices []*notice
	since   time.Duration // when the call began to wait

	// On a store whose MinTTL is above noticeTTL, notices live for MinTTL, and a cycle counts only
	// if it is seen for longer too: twice the difference, since such a store also ends claims late.
	life, confirm time.Duration

	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	ended  chan struct{} // a lease has ended
	done   chan struct{} // closed when the detector has ended
}

// Start starts a detector for a call that waits. The first check is after a second. The detector
// ends with ctx or with [Detector.Stop].
func Start(ctx context.Context, c Config, held []Held, w Waiter) *Detector {
	life := max(noticeTTL, c.Store.Features().MinTTL)
	d := &Detector{
		Config: c, waiter: w, task: rand.Text(), since: c.Now(), life: life,
		ended: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if life > noticeTTL {
		d.confirm = lookAgain + 2*(life-noticeTTL)
	}
	for _, h := range held[:min(len(held), maxNotices)] {
		d.notices = append(d.notices, &notice{held: h, id: driver.ID{Key: c.Key(h.Owner), Owner: rand.Text()}})
	}
	d.ctx, d.cancel = context.WithCancel(ctx)
	d.timer = time.AfterFunc(patience, d.run)
	return d
}

// Stop ends the detector. It returns a channel that is closed when the notices are removed, or nil
// if there were none. Stop of a nil Detector does nothing.
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
	var first time.Duration      // when the cycle was seen for the first time
	last, pause := "", lookAgain // other tasks that began to wait at the same time may not have posted yet
	for d.ctx.Err() == nil {
		self := d.post()
		if self == nil {
			return
		}
		now := ""
		c, err := d.graph().findCycle(d.ctx, self)
		if err == nil && c != nil { // a check that failed saw nothing
			now = c.Fingerprint()
			pause = lookAgain
		}
		if now != last {
			first = d.Now()
		}
		if now != "" && now == last && d.Now()-first >= d.confirm && c.victim() == self {
			// Later checks of other tasks do not see this task, so they find no second victim.
			d.removeAll()
			d.waiter.Fail(c)
			return
		}
		d.pause(pause)
		last, pause = now, lookEvery
	}
}

// listen makes the detector check as soon as one of the leases has ended.
func (d *Detector) listen() {
	for _, n := range d.notices {
		context.AfterFunc(n.held.Context(d.ctx), func() {
			select {
			case d.ended <- struct{}{}:
			default: // a check is already due
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

func (d *Detector) graph() *graph {
	read := func(ctx context.Context, key string) ([]driver.Claim, error) { return driver.Show(ctx, d.Store, key) }
	return &graph{read: read, key: d.Key}
}

// snapshot returns the call as a node of the graph, or nil if the call no longer waits.
func (d *Detector) snapshot() *node {
	w, waits := d.waiter.Snapshot()
	if !waits {
		return nil
	}
	return &node{task: d.task, Wait: w, waited: d.Now() - d.since}
}

// post posts or renews the notices, and returns the node that they describe, or nil if the call no
// longer waits. If the store does not accept a notice, post tries again at the next check.
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
		old, renewals = append(old, n), append(renewals, driver.Renewal{ID: n.id, TTL: d.life, Value: n.changed(c)})
	}
	if len(old) == 0 {
		return self
	}
	for i, r := range driver.RenewAll(call, d.Store, renewals) {
		if errors.Is(r.Err, driver.ErrNotHeld) {
			old[i].id.Owner, old[i].posted = rand.Text(), false
		} else if r.Err != nil {
			old[i].text = nil // the store may have the old text or the new one
		}
	}
	return self
}

// postNew posts a notice for the first time.
func (d *Detector) postNew(ctx context.Context, n *notice, c content, holder string) {
	again := n.text != nil
	n.text = c.text()
	res, err := d.Store.Acquire(ctx, driver.Request{
		ID: n.id, Weight: 1, Limit: driver.Whole, TTL: d.life, Holder: holder, Task: d.task, Value: n.text,
	})
	n.posted = err == nil && res.Granted
	if n.posted && again {
		n.text = nil // an earlier attempt without an answer may have been granted: then its text stays
	}
}

// dropEnded removes the notices of leases that have ended. A call can outlive the leases of its
// context if it waits under [context.WithoutCancel].
func (d *Detector) dropEnded() {
	ended := func(n *notice) bool { return n.held.Err() != nil }
	if !slices.ContainsFunc(d.notices, ended) {
		return
	}
	call, cancel := d.lastCall()
	defer cancel()
	d.notices = slices.DeleteFunc(d.notices, func(n *notice) bool {
		if !ended(n) {
			return false
		}
		d.remove(call, n)
		return true
	})
}

// removeAll removes all notices. A notice whose removal fails expires.
func (d *Detector) removeAll() {
	call, cancel := d.lastCall()
	defer cancel()
	for _, n := range d.notices {
		d.remove(call, n)
	}
	d.notices = nil
}

// lastCall returns a context for removals, which must also work after the wait has ended.
func (d *Detector) lastCall() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(d.ctx), removeLimit)
}

func (d *Detector) remove(ctx context.Context, n *notice) {
	if n.text != nil || n.posted { // it may be in the store
		_ = d.Store.Release(ctx, n.id)
	}
}
