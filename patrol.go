package distlock

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// The times of a patrol. The last of a circle to begin to wait posts its notices after a second; whoever is to be told of it looks at the latest
// 400 ms later, and again after 200 ms: 1.6 s, and 400 ms are left for the store.
const (
	patience  = time.Second            // how long a call waits before it looks why
	lookEvery = 400 * time.Millisecond // how often it does then
	lookAgain = 200 * time.Millisecond // how soon it makes sure of a circle

	// noticeTTL is how long a notice outlives its party. It is less than patience and lookAgain: a process that died is
	// in no circle with one that begins to wait later, which would have to see the notice two times.
	noticeTTL = 1100 * time.Millisecond

	// maxNotices bounds how many leases a party posts notices for.
	maxNotices = 64
)

// A patrol looks after a call that waits and whose context holds leases. When the call has waited for a second, it posts a notice for each of these
// leases: a claim on the key kindWait and the tag of the lease's owner. So whoever finds a claim in its way finds out with one look
// whether the holder waits itself, and for what. Then it looks from time to time whether those who are in its own way wait for it: see walk. What is
// seen two times, with the same owners and fences, was there all the time in between.
//
// Everybody who waits in a circle sees the same circle, and one of them is the one to be told. A patrol tells its own call and no other.
type patrol struct {
	l       *Locker
	n       *line
	w       *waiter
	party   string
	notices []*notice
	since   time.Duration // when the call began to wait

	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	ended  chan struct{} // a lease is over
	done   chan struct{} // closed when nothing of it runs any more
}

// A notice is what a party tells about one of its leases and about its wait.
type notice struct {
	lease  *Lease
	id     driver.ID
	posted bool   // surely; if not, it may be in the store all the same
	text   []byte // as it was posted; nil: it is not known, or none was
}

// A word is what stands in a notice. It counts from when the notice was granted: times of day mean nothing to others.
type word struct {
	Key    string        `json:"key"`   // what is held
	Fence  uint64        `json:"fence"` // of the lease
	Held   time.Duration `json:"held"`
	Wants  string        `json:"wants"` // the key that is waited for
	Waited time.Duration `json:"waited"`
	demand
	Place string   `json:"place,omitempty"` // the tag of the place in line with which the process waits; none: it has the key itself
	Ahead []demand `json:"ahead,omitempty"` // what other calls of the process want first
}

// A demand is what a claim needs to be granted.
type demand struct {
	Weight int64 `json:"weight"`
	Limit  int64 `json:"limit"`
}

// patrol begins to look after w, if its context holds leases and the store can tell who waits. What a rate limit counts ends by itself, and nobody waits for it in
// a circle.
func (l *Locker) patrol(ctx context.Context, n *line, w *waiter) *patrol {
	f := &l.features
	if !f.Queue || !f.Value || f.MinTTL > noticeTTL || f.MaxTTL > 0 && f.MaxTTL < noticeTTL {
		return nil
	}
	held := holdings(ctx)
	if k, _, _ := splitKey(w.r.Key); len(held) == 0 || k == kindRate {
		return nil
	}
	p := &patrol{l: l, n: n, w: w, party: newOwner(), since: l.clock.Awake(), ended: make(chan struct{}, 1), done: make(chan struct{})}
	for _, lease := range held[:min(len(held), maxNotices)] {
		key := kindWait.key(driver.Tag(lease.t.id.Owner))
		p.notices = append(p.notices, &notice{lease: lease, id: driver.ID{Key: key, Owner: newOwner()}})
	}
	p.ctx, p.cancel = context.WithCancel(l.running)
	p.timer = time.AfterFunc(patience, p.run)
	return p
}

// stop ends the patrol, and takes its notices back. It does not wait for that much longer than ctx
// lasts: notices end by themselves.
func (p *patrol) stop(ctx context.Context) {
	if p == nil {
		return
	}
	p.cancel()
	if !p.timer.Stop() {
		_, _ = await(ctx, p.done, 2*withdrawLimit)
	}
}

// run posts and looks until the wait is over, or known to be in vain.
func (p *patrol) run() {
	defer close(p.done)
	p.l.mu.Lock()
	closed := p.l.closed
	if !closed {
		p.l.wg.Add(1)
		defer p.l.wg.Done()
	}
	p.l.mu.Unlock()
	if closed {
		return
	}
	defer p.takeBack()
	p.listen()
	last, pause := "", lookAgain // those who began to wait at the same time may not all have posted yet
	for p.ctx.Err() == nil {
		self := p.post()
		if self == nil {
			return
		}
		now := ""
		c, err := p.l.walk(p.ctx, self)
		if err == nil && c != nil { // a look that failed saw nothing
			now = c.mark()
			pause = lookAgain
		}
		if now != "" && now == last && c.victim() == self {
			p.tell(c)
			return
		}
		p.pause(pause)
		last, pause = now, lookEvery
	}
}

// listen has the patrol look as soon as one of the leases is over.
func (p *patrol) listen() {
	for _, n := range p.notices {
		context.AfterFunc(n.lease.Context(p.ctx), func() {
			select {
			case p.ended <- struct{}{}:
			default: // it will look already
			}
		})
	}
}

func (p *patrol) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended:
	case <-p.ctx.Done():
	}
}

// post posts the notices, or renews them, and returns what they say: nil if the call waits no more. What the store does not take now it is
// asked to take the next time.
func (p *patrol) post() *wait {
	p.dropEnded()
	self := p.look()
	if self == nil || len(p.notices) == 0 {
		return nil
	}
	now := p.l.clock.Awake()
	call, cancel := context.WithTimeout(p.ctx, noticeTTL)
	defer cancel()
	var old []*notice
	var renewals []driver.Renewal
	for _, n := range p.notices {
		w := word{
			Key: n.lease.r.Key, Fence: n.lease.fence, Held: now - n.lease.since,
			Wants: self.wants, Waited: now - p.since, demand: self.demand, Place: self.place, Ahead: self.ahead,
		}
		self.hold(hold{w.Key, driver.Tag(n.lease.t.id.Owner)}, holding{w.Fence, w.Held})
		if !n.posted {
			n.post(call, p, w)
			continue
		}
		old, renewals = append(old, n), append(renewals, driver.Renewal{ID: n.id, TTL: noticeTTL, Value: n.news(w)})
	}
	if len(old) == 0 {
		return self
	}
	for i, r := range driver.RenewAll(call, p.l.store, renewals) {
		if errors.Is(r.Err, driver.ErrNotHeld) {
			old[i].id.Owner, old[i].posted = newOwner(), false
		} else if r.Err != nil {
			old[i].text = nil // it is not known which text the store has
		}
	}
	return self
}

// dropEnded takes back the notices of leases that are over: a call may outlive what its context holds, if it waits under
// context.WithoutCancel.
func (p *patrol) dropEnded() {
	over := func(n *notice) bool { return n.lease.Err() != nil }
	if !slices.ContainsFunc(p.notices, over) {
		return
	}
	call, cancel := p.lastCall()
	defer cancel()
	p.notices = slices.DeleteFunc(p.notices, func(n *notice) bool {
		if !over(n) {
			return false
		}
		p.remove(call, n)
		return true
	})
}

// look returns what the call waits for, and behind whom: nil if it waits no more.
func (p *patrol) look() *wait {
	l, n, w := p.l, p.n, p.w
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(n.waiters, w)
	if at < 0 {
		return nil
	}
	now := l.clock.Awake()
	self := &wait{party: p.party, holder: w.r.opt.holder, wants: w.r.Key, waited: now - p.since, demand: w.r.demand()}
	if n.placed != nil {
		self.place = driver.Tag(n.owner)
	}
	for _, before := range n.waiters[:at] {
		if d := before.r.demand(); d != self.demand && !slices.Contains(self.ahead, d) {
			self.ahead = append(self.ahead, d)
		}
	}
	return self
}

func (r *request) demand() demand { return demand{r.Weight, r.bound()} }

// post posts a new notice.
func (n *notice) post(ctx context.Context, p *patrol, w word) {
	again := n.text != nil
	n.text = w.text()
	res, err := p.l.store.Acquire(ctx, driver.Request{
		ID: n.id, Weight: 1, Limit: driver.Whole, TTL: noticeTTL, Holder: p.w.r.opt.holder, Party: p.party, Value: n.text,
	})
	n.posted = err == nil && res.Granted
	if n.posted && again {
		n.text = nil // an ask that was not answered may have been granted: its text stays
	}
}

// news returns the text of a notice if it has changed. The times stay: they count from when it was granted.
func (n *notice) news(w word) []byte {
	var old word
	if json.Unmarshal(n.text, &old) == nil {
		w.Held, w.Waited = old.Held, old.Waited
	}
	text := w.text()
	if slices.Equal(text, n.text) {
		return nil
	}
	n.text = text
	return text
}

func (w word) text() []byte {
	b, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers have a JSON form
	}
	return b
}

// takeBack takes all notices back. What the store does not answer ends by itself.
func (p *patrol) takeBack() {
	call, cancel := p.lastCall()
	defer cancel()
	for _, n := range p.notices {
		p.remove(call, n)
	}
	p.notices = nil
}

// lastCall returns a context for taking back, which has to be done also when the wait is over.
func (p *patrol) lastCall() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(p.ctx), withdrawLimit)
}

func (p *patrol) remove(ctx context.Context, n *notice) {
	if n.text != nil || n.posted { // it was asked for
		_ = p.l.store.Release(ctx, n.id)
	}
}

// tell ends the wait with what was found. The notices are taken back first: whoever looks from then on does not count this party, and
// finds no other to tell.
func (p *patrol) tell(c *circle) {
	p.takeBack()
	l, n, w := p.l, p.n, p.w
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(n.waiters, w)
	if at < 0 {
		return // it was served at the same moment, or left
	}
	n.waiters = slices.Delete(n.waiters, at, at+1)
	n.fail(w, &DeadlockError{Key: w.r.name, Cycle: c.parties(), Err: n.inTheWay(w, at)})
	l.tidy(n)
}
