package history

import (
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
)

// chunk is the number of operations that are allocated at a time. They are not moved afterwards, so
// that pending operations can be filled in.
const chunk = 1024

// A Recorder records the operations of many goroutines. Create one with [New].
type Recorder struct {
	start  time.Time
	report func(n int, op Op) // nil: no reports

	mu    sync.Mutex
	seq   int64
	holds int64
	count int
	ops   [][]Op
}

// New returns an empty recorder whose clock begins now. In a synctest bubble it must be created
// inside the bubble.
func New() *Recorder { return &Recorder{start: time.Now()} }

// NewSince returns an empty recorder whose clock began at start, which needs a monotonic reading.
// The recorder reports each operation by its number: when it is called, and again whenever more is
// known about it. Another process thus knows the operations of a process that is killed. An
// operation does not continue before report has returned, and report must not use the recorder.
func NewSince(start time.Time, report func(n int, op Op)) *Recorder {
	return &Recorder{start: start, report: report}
}

// A Want is the request of an acquire.
type Want struct {
	Client, Key   string
	Weight, Limit int64         // both 0: an exclusive hold
	TTL           time.Duration // how long an unanswered acquire may hold the key
}

// Acquire records the call of an acquire. Call it once, just before the first request is made,
// however many follow. The result records the following operations.
func (r *Recorder) Acquire(w Want) *Hold {
	if w.Weight == 0 && w.Limit == 0 {
		w.Weight, w.Limit = driver.Whole, driver.Whole
	}
	h := &Hold{r: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds++
	h.entry = r.add(Op{
		Kind: Acquire, Key: w.Key, Client: w.Client, Hold: r.holds,
		Weight: w.Weight, Limit: w.Limit, TTL: w.TTL, Call: r.stamp(),
	})
	return h
}

// Fault records a fault, from one time to another, of a client or, if client is empty, of all
// clients. Both times may be in the past or the future. The name is for readers, except [Pause].
func (r *Recorder) Fault(client, name string, from, to time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(Op{
		Kind: Fault, Client: client, What: name,
		Call: Stamp{At: from.Sub(r.start)}, Return: Stamp{At: to.Sub(r.start)},
	})
}

// Pause is the name of a fault that stopped the client itself: it cannot be notified before the end
// of the fault.
const Pause = "pause"

// History returns all operations that were recorded until now.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{End: time.Since(r.start), Ops: make([]Op, 0, len(r.ops)*chunk)}
	for _, c := range r.ops {
		h.Ops = append(h.Ops, c...)
	}
	return h
}

// An entry is a recorded operation and its number.
type entry struct {
	op *Op
	n  int
}

// changed must be called with the lock held, after the operation was filled in.
func (r *Recorder) changed(e entry) {
	if r.report != nil {
		r.report(e.n, *e.op)
	}
}

// add must be called with the lock held.
func (r *Recorder) add(op Op) entry {
	n := len(r.ops)
	if n == 0 || len(r.ops[n-1]) == chunk {
		r.ops = append(r.ops, make([]Op, 0, chunk))
		n++
	}
	last := &r.ops[n-1]
	*last = append(*last, op)
	e := entry{&(*last)[len(*last)-1], r.count}
	r.count++
	r.changed(e)
	return e
}

// stamp must be called with the lock held, so that the clock and the sequence agree.
func (r *Recorder) stamp() Stamp {
	r.seq++
	return Stamp{At: time.Since(r.start), Seq: r.seq}
}

// A Hold records one acquire and the operations that follow it. Its methods may be called by many
// goroutines.
type Hold struct {
	r     *Recorder
	entry // its acquire
}

// Waiting records that the acquire was refused and waits from now on.
func (h *Hold) Waiting() {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	if h.op.Wait == (Stamp{}) {
		h.op.Wait = h.r.stamp()
		h.r.changed(h.entry)
	}
}

// Granted records the return of the acquire with a lease. The holder trusts the lease until the
// given time; the zero time means that trust has no end.
func (h *Hold) Granted(fence uint64, until time.Time) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.op.Outcome, h.op.Fence, h.op.Return = Granted, fence, h.r.stamp()
	h.op.Until = h.r.since(until)
	h.r.changed(h.entry)
}

// Ended records the return of the acquire without a lease: Refused, also for a wait that was given
// up, Failed, Unknown or Untyped.
func (h *Hold) Ended(o Outcome) { (&Call{h.r, h.entry}).End(o) }

// GiveUp records that the caller ended the acquire. Call it before the return is recorded.
func (h *Hold) GiveUp() {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.op.What = GivenUp
}

// Renew records the call of a renewal.
func (h *Hold) Renew() *Call { return h.call(Op{Kind: Renew}) }

// Lower records the call that lowers the weight of the hold.
func (h *Hold) Lower(weight int64) *Call { return h.call(Op{Kind: Lower, Weight: weight}) }

// Release records the call of a release.
func (h *Hold) Release() *Call { return h.call(Op{Kind: Release}) }

// Lost records that the loss of the lease is reported to the holder now. After a release it has no
// meaning.
func (h *Hold) Lost() { h.call(Op{Kind: Lost}).End(Done) }

// Gone records that the holder's process ends now.
func (h *Hold) Gone() { h.call(Op{Kind: Gone}).End(Done) }

// Trusted records that the lease reported just now that it is held.
func (h *Hold) Trusted() { h.call(Op{Kind: Trust}).End(Done) }

// Write records the call that writes to a register guarded by fences. The value read before is saw,
// the value written is put; the values of a register must rise.
func (h *Hold) Write(register string, fence, saw, put uint64) *Call {
	return h.call(Op{Kind: Write, What: register, Fence: fence, Saw: saw, Put: put})
}

// WritePlain is Write for a register that accepts every write.
func (h *Hold) WritePlain(register string, saw, put uint64) *Call {
	return h.call(Op{Kind: Plain, What: register, Saw: saw, Put: put})
}

func (h *Hold) call(op Op) *Call {
	op.Key, op.Client, op.Hold = h.op.Key, h.op.Client, h.op.Hold
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	op.Call = h.r.stamp()
	return &Call{h.r, h.r.add(op)}
}

// A Call is an operation in progress. A call that does not end is Pending.
type Call struct {
	r *Recorder
	entry
}

// End records the return. The first return counts.
func (c *Call) End(o Outcome) { c.end(o, time.Time{}) }

// Extended records the return of a renewal: trust now lasts until a time.
func (c *Call) Extended(until time.Time) { c.end(Done, until) }

func (c *Call) end(o Outcome, until time.Time) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.op.Return == (Stamp{}) {
		c.op.Outcome, c.op.Return, c.op.Until = o, c.r.stamp(), c.r.since(until)
		c.r.changed(c.entry)
	}
}

// since returns a time on the recorder's clock, at least 1 for a time that is not zero.
func (r *Recorder) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(r.start), 1)
}
