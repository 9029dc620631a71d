package pgadvisory

import (
	"sync"
	"time"
)

// grace is by how much later than its TTL the server ends an idle connection: a process that runs ends its claims itself, and
// keeps the connection. It also covers the time between a grant that was waited for and the call that takes it.
const grace = 500 * time.Millisecond

// stuck is how long a statement may be unanswered before others are sent elsewhere.
const stuck = 250 * time.Millisecond

// A link is a connection and what the store holds on it.
type link struct {
	*wire

	order sync.Mutex               // held while the lease is looked at and a statement is sent: the last one sent decides
	of    map[*claim]time.Duration // the TTLs of the claims
	lives map[time.Duration]int    // how many claims have this TTL
	lease time.Duration            // after which idle time the server ends the connection; 0: never

	// The rest is guarded by the store's lock.
	holds  map[int64]int // how many claims there are of a number, also those that are asked for or given back
	doubts map[int64]int // how many of them are in doubt
	claims map[*claim]bool

	questions int  // that are about to be sent
	waits     bool // the server keeps it in line for a lock; it can do nothing else meanwhile
}

func newLink(w *wire) *link {
	return &link{wire: w, of: map[*claim]time.Duration{}, lives: map[time.Duration]int{}, holds: map[int64]int{}, doubts: map[int64]int{}, claims: map[*claim]bool{}}
}

// do sends a statement about a claim that has the TTL from here on; 0: it is none any more. With it goes the time after which
// the server ends the connection, if that changes.
func (l *link) do(v verb, c *claim, ttl time.Duration, then func(*call)) error {
	l.order.Lock()
	defer l.order.Unlock()
	l.count(c, ttl)
	return l.sendLeased(v, c.number, then)
}

// beatAll sends the statement that renews many claims. Those that ended meanwhile stay so.
func (l *link) beatAll(claims []renewal, then func(*call)) error {
	l.order.Lock()
	defer l.order.Unlock()
	for _, r := range claims {
		if _, ok := l.of[r.claim]; ok {
			l.count(r.claim, r.ttl)
		}
	}
	return l.sendLeased(beat, 0, then)
}

// forget takes a claim out of account that the server does not hold.
func (l *link) forget(c *claim) {
	l.order.Lock()
	defer l.order.Unlock()
	l.count(c, 0)
}

// failed says that a statement that gave claims other TTLs was refused by the server: what it set is not in force.
func (l *link) failed(c *claim, ttl time.Duration) {
	l.order.Lock()
	defer l.order.Unlock()
	if _, ok := l.of[c]; ok {
		l.count(c, ttl)
	}
	l.lease = -1 // nobody knows: it is said again with the next statement
}

func (l *link) count(c *claim, ttl time.Duration) {
	if was, ok := l.of[c]; ok {
		if l.lives[was]--; l.lives[was] == 0 {
			delete(l.lives, was)
		}
		delete(l.of, c)
	}
	if ttl > 0 {
		l.of[c] = ttl
		l.lives[ttl]++
	}
}

func (l *link) sendLeased(v verb, key int64, then func(*call)) error {
	var longest, timeout time.Duration
	for d := range l.lives {
		longest = max(longest, d)
	}
	// A link that holds nothing keeps what it had, and so ends by itself if it is not used.
	if want := leaseFor(longest); longest > 0 && want != l.lease {
		timeout, l.lease = want, want
	}
	return l.send(v, arguments(key, timeout), then)
}

// leaseFor is how long a connection with claims of this TTL may be idle, in whole milliseconds.
func leaseFor(ttl time.Duration) time.Duration {
	return (ttl + grace + time.Millisecond - 1).Truncate(time.Millisecond)
}

// fits tells how well a claim with this TTL goes on the link; less is better. Where TTLs differ, a claim of a process that
// stops lives for the longest of them.
func (l *link) fits(ttl time.Duration) (misfit time.Duration) {
	l.order.Lock()
	defer l.order.Unlock()
	if len(l.lives) == 0 {
		return 0
	}
	return (leaseFor(ttl) - l.lease).Abs()
}

// stale reports whether the server may be about to end the link, which holds nothing.
func (l *link) stale(idle time.Duration) bool {
	l.order.Lock()
	defer l.order.Unlock()
	return l.lease != 0 && idle > max(l.lease, grace)-grace/2
}
