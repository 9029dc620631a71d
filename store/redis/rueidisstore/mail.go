package rueidisstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	// fewest is how many round trips may be under way to a server nearby before calls are held back to be sent together. With fewer, the
	// server waits while answers are read, and with more there are fewer calls in each.
	fewest = 3

	// crowded is from how many calls at a time on it is worth to hold them back although fewer round trips are under way.
	crowded = 8

	// most is how many may be under way to a server far away, and patience how far apart they begin: a call that is held
	// back does not wait for longer than that, while it waits for a whole round trip anyway.
	most, patience = 64, 100 * time.Microsecond

	// fresh is for how long after an answer a server is believed to be there.
	fresh = 50 * time.Millisecond

	// leftLimit is how long the calls of those who left may take. They are sent all the same: one of them may be a release.
	leftLimit = 5 * time.Second

	// longest is how many calls are held back before those of senders who leave are dropped.
	longest = 1024
)

// A mail sends calls to one server. While few are under way, a call is sent at once, by its caller. Otherwise it is held back until
// one of them is over, and is sent with all that came meanwhile: to write to a socket, and to wake the one who waits at its other
// end, costs several times as much as all else about a call.
//
// What is sent together is sent by goroutines of the mail, so that each caller can leave when its own ctx is over. So is a
// call to a server that has said nothing for a while: in the goroutine of the caller, rueidis looks at nothing but the deadline while
// it waits for an answer, and at nothing at all while it connects. To go through another goroutine takes 20 us, a third of
// a call; so it is not the rule.
type mail struct {
	c rueidis.Client

	mu      sync.Mutex
	posted  sync.Cond     // something may be taken out of the box, or the mail is closed
	box     []*letter     // calls that are held back
	under   int           // round trips under way
	out     int           // calls that they carry
	crowd   int           // how many calls there were at a time of late, held back or under way
	strays  int           // letters under way whose senders have left
	porters int           // goroutines
	idle    int           // those of them that wait
	heard   time.Time     // when the server last answered
	least   time.Duration // what a round trip takes that nothing holds up
	closed  bool
	wg      sync.WaitGroup
	used    sync.Pool // letters
}

// A letter is a call that is sent by another than its caller.
type letter struct {
	ctx   context.Context
	cmd   rueidis.Completed
	res   rueidis.RedisResult
	back  chan struct{} // has room for one: res is there
	taken bool          // it is under way
	left  bool          // its sender has left
}

// init makes the zero mail one for a client.
func (m *mail) init(c rueidis.Client) {
	m.c = c
	m.posted.L = &m.mu
	m.used.New = func() any { return &letter{back: make(chan struct{}, 1)} }
}

// send sends a command and returns the answer.
func (m *mail) send(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return rueidis.NewErrorResult(errClosed)
	}
	if sent := time.Now(); m.spare(1) && m.strays == 0 && len(m.box) == 0 && sent.Sub(m.heard) < fresh {
		m.under++
		m.out++
		m.mu.Unlock()
		res := m.c.Do(ctx, cmd)
		m.mu.Lock()
		m.arrived(sent, 1, res)
		m.ring()
		m.mu.Unlock()
		return res
	}
	l := m.used.Get().(*letter)
	l.ctx, l.cmd = ctx, cmd
	m.box = append(m.box, l)
	m.ring()
	m.mu.Unlock()
	select {
	case <-l.back:
		res := l.res
		*l = letter{back: l.back}
		m.used.Put(l)
		return res
	case <-ctx.Done():
		m.leave(l)
		return rueidis.NewErrorResult(context.Cause(ctx))
	}
}

// leave notes that the sender of a letter has left. One that is under way goes on, and until it is over nothing else is sent: what
// comes next may be to undo it, and must not overtake it. One that is held back is sent in its turn, for the same reason.
func (m *mail) leave(l *letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.left = true
	switch {
	case l.taken:
		m.strays++
	case len(m.box) > longest:
		m.box = slices.DeleteFunc(m.box, func(o *letter) bool { return o == l })
	}
}

// carry makes round trips with what is in the box, until the mail is closed.
func (m *mail) carry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for !m.ready() {
			if m.closed && len(m.box) == 0 {
				m.posted.Broadcast() // others may wait because the box was not empty when it was closed
				return
			}
			m.idle++
			m.posted.Wait()
			m.idle--
		}
		m.under++
		bag := m.box
		m.box = nil
		m.out += len(bag)
		ctx, cancel := latest(bag)
		for _, l := range bag {
			if l.taken = true; l.left {
				m.strays++
			}
		}
		m.mu.Unlock()
		sent := time.Now()
		m.trip(ctx, bag)
		cancel()
		m.mu.Lock()
		m.arrived(sent, len(bag), bag[0].res)
		for _, l := range bag {
			if l.taken = false; l.left {
				m.strays--
			}
			l.back <- struct{}{}
		}
		m.ring()
	}
}

// trip makes one round trip.
func (m *mail) trip(ctx context.Context, bag []*letter) {
	if len(bag) == 1 {
		bag[0].res = m.c.Do(ctx, bag[0].cmd)
		return
	}
	cmds := make(rueidis.Commands, len(bag))
	for i, l := range bag {
		cmds[i] = l.cmd
	}
	for i, res := range m.c.DoMulti(ctx, cmds...) {
		bag[i].res = res
	}
}

// latest returns a context for a round trip, which ends with the last of the deadlines. That a caller leaves is no reason to end the
// others' calls.
func latest(bag []*letter) (context.Context, context.CancelFunc) {
	if len(bag) == 1 && !bag[0].left {
		return bag[0].ctx, func() {}
	}
	var last time.Time
	for _, l := range bag {
		d, ok := l.ctx.Deadline()
		switch {
		case l.left:
			d = time.Now().Add(leftLimit)
		case !ok:
			return context.Background(), func() {}
		}
		if d.After(last) {
			last = d
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// close ends the goroutines, once all that was posted is answered.
func (m *mail) close() {
	m.mu.Lock()
	m.closed = true
	m.posted.Broadcast()
	m.mu.Unlock()
	m.wg.Wait()
}

// What follows is called with the lock held.

// ready reports whether what is in the box may be sent.
func (m *mail) ready() bool { return len(m.box) > 0 && m.spare(len(m.box)) && m.strays == 0 }

// spare reports whether so many calls may be sent now. To a server nearby the calls of a crowd go in equal shares: callers who were answered
// together come back one after the other, and if the first of them went alone, the others would wait for the server, and the server for them.
func (m *mail) spare(calls int) bool {
	trips := m.trips()
	switch {
	case m.under == 0:
		return true
	case m.under >= trips:
		return false
	}
	return trips > fewest || m.crowd < crowded || calls >= m.crowd/fewest
}

// trips returns how many round trips may be under way.
func (m *mail) trips() int { return min(max(fewest, int(m.least/patience)), most) }

// ring lets somebody look into the box, if it is worth it.
func (m *mail) ring() {
	switch {
	case !m.ready():
	case m.idle > 0:
		m.posted.Signal()
	case m.porters < m.trips():
		m.porters++
		m.wg.Go(m.carry)
	}
}

// arrived notes that a round trip with so many calls is over. Those of many calls take longer than the way to the server does, and
// do not raise what a round trip takes.
func (m *mail) arrived(sent time.Time, calls int, res rueidis.RedisResult) {
	m.crowd = max(m.out+len(m.box), m.crowd-m.crowd/8)
	m.under--
	m.out -= calls
	if res.NonRedisError() != nil {
		return
	}
	m.heard = time.Now()
	switch took := m.heard.Sub(sent); {
	case took < m.least, m.least == 0:
		m.least = took
	case calls == 1:
		m.least += (took - m.least) / 64
	}
}
