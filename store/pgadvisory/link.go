package pgadvisory

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distlock/distlock/internal/pgwire"
)

// grace is the extra time after the TTL before the server ends an idle connection: a running
// process ends its claims itself and keeps the connection. It also covers the time between a grant
// in the server's queue and the attempt that takes it.
const grace = 500 * time.Millisecond

// stuck is how long a statement may be unanswered before others are sent on another connection.
const stuck = 250 * time.Millisecond

// A link is a connection and the claims that it holds.
type link struct {
	*pgwire.Conn
	pid int64 // the server process

	order sync.Mutex            // held while a statement with a lease is sent: the last one sent decides
	lives map[time.Duration]int // how many claims have this TTL
	lease time.Duration         // idle time after which the server ends the connection; 0: never

	// Store.mu guards the fields below.
	holds  map[int64]int // number of claims on a lock number, including requested and releasing ones
	doubts map[int64]int // number of them in doubt
	claims map[*claim]bool

	questions int  // about to be sent
	waits     bool // it waits in the server's queue for a lock, and can do nothing else
}

func newLink(c *pgwire.Conn, pid int64) *link {
	return &link{Conn: c, pid: pid, lives: map[time.Duration]int{}, lease: firstLease,
		holds: map[int64]int{}, doubts: map[int64]int{}, claims: map[*claim]bool{}}
}

// send sends a statement. then is called with the answer, unless send returns an error.
func (l *link) send(v verb, args [][]byte, then func(*pgwire.Call)) error {
	k := &pgwire.Call{Then: then}
	k.Add(pgwire.Statement{Name: string(v), Args: args, Formats: formats[:len(args)],
		Results: formats[:1]})
	if err := l.Send(k); err != nil {
		return &lostError{err}
	}
	return nil
}

// answer returns the first column of a call's only row. An error of the server, or an answer of
// another server process, is an error.
func (l *link) answer(k *pgwire.Call) (value int64, ok bool, err error) {
	rows := k.Statements[0].Rows
	switch {
	case k.Lost != nil:
		return 0, false, &lostError{k.Lost}
	case k.Err != nil:
		return 0, false, k.Err
	case len(rows) != 1 || len(rows[0]) < 2:
		return 0, false, errors.New("pgadvisory: the server sent an unexpected answer")
	}
	if pid, _ := number(rows[0][1]); pid != l.pid {
		l.Close() // locks on the other process are lost
		return 0, false, fmt.Errorf("%w: it was served by process %d and is now by %d", ErrPooler,
			l.pid, pid)
	}
	value, ok = number(rows[0][0])
	return value, ok, nil
}

// do sends a statement about a claim, which has this TTL from now on; 0: the claim ends. If the
// idle time after which the server ends the connection changes, the statement sets it too.
func (l *link) do(v verb, c *claim, ttl time.Duration, then func(*pgwire.Call)) error {
	l.order.Lock()
	defer l.order.Unlock()
	l.count(c, ttl)
	return l.sendLeased(v, c.number, then)
}

// beatAll sends the statement that renews many claims. Claims that have ended stay ended.
func (l *link) beatAll(claims []renewal, then func(*pgwire.Call)) error {
	l.order.Lock()
	defer l.order.Unlock()
	for _, r := range claims {
		if r.claim.counted > 0 {
			l.count(r.claim, r.ttl)
		}
	}
	return l.sendLeased(beat, 0, then)
}

// forget removes a claim that the server does not hold from the TTLs.
func (l *link) forget(c *claim) {
	l.order.Lock()
	defer l.order.Unlock()
	l.count(c, 0)
}

// failed records that the server refused a statement with new TTLs: its settings are not in force.
func (l *link) failed(c *claim, ttl time.Duration) {
	l.order.Lock()
	defer l.order.Unlock()
	if c.counted > 0 {
		l.count(c, ttl)
	}
	l.lease = -1 // unknown: the next statement sets it again
}

func (l *link) count(c *claim, ttl time.Duration) {
	if c.counted > 0 {
		countDown(l.lives, c.counted)
	}
	if c.counted = ttl; ttl > 0 {
		l.lives[ttl]++
	}
}

func (l *link) sendLeased(v verb, key int64, then func(*pgwire.Call)) error {
	var longest, timeout time.Duration
	for d := range l.lives {
		longest = max(longest, d)
	}
	// A link without claims keeps its setting, and so ends by itself if it is not used.
	if want := leaseFor(longest); longest > 0 && want != l.lease {
		timeout, l.lease = want, want
	}
	return l.send(v, arguments(key, timeout), then)
}

// leaseFor returns how long a connection with claims of this TTL may be idle, in whole
// milliseconds.
func leaseFor(ttl time.Duration) time.Duration {
	return (ttl + grace + time.Millisecond - 1).Truncate(time.Millisecond)
}

// fits returns how well a claim with this TTL fits on the link; less is better. If TTLs differ, a
// claim of a stopped process lives for the longest of them.
func (l *link) fits(ttl time.Duration) (misfit time.Duration) {
	l.order.Lock()
	defer l.order.Unlock()
	if len(l.lives) == 0 {
		return 0
	}
	return (leaseFor(ttl) - l.lease).Abs()
}

// stale reports whether the server may be about to end the link, which has no claims.
func (l *link) stale(idle time.Duration) bool {
	l.order.Lock()
	defer l.order.Unlock()
	return l.lease != 0 && idle > max(l.lease, grace)-grace/2
}
