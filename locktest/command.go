package locktest

import (
	"context"
	"slices"
	"time"

	"github.com/distlock/distlock/internal/lab/chaos"
)

// A Verb is a call that a Locker makes to its store.
type Verb string

// The verbs. The renewal of many leases in one round trip is one Renew.
const (
	Acquire Verb = "acquire"
	Renew   Verb = "renew"
	Release Verb = "release"
	Show    Verb = "show"
	List    Verb = "list"
	Break   Verb = "break"
	Inspect Verb = "inspect"
)

// Calls returns how many calls of these verbs were made on this link, also calls that failed. With
// no verb, it returns the number of all calls.
func (s *Store) Calls(verbs ...Verb) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for v, calls := range s.calls {
		if concerns(verbs, v) {
			n += calls
		}
	}
	return n
}

// Cut cuts the process off from the store until [Store.Heal]. Calls hang until their ctx ends, as
// on a network that drops all packets, and no wake-up arrives.
func (s *Store) Cut() { s.link.Cut(chaos.All) }

// Heal ends a [Store.Cut]. Lost calls stay lost: calls that still hang fail, with an unknown
// outcome.
func (s *Store) Heal() { s.link.Heal() }

// Freeze stops all traffic on the link until [Store.Thaw]. Unlike [Store.Cut] it loses nothing: a
// call that hangs continues at Thaw, unless its caller has given up by then.
func (s *Store) Freeze() { s.link.Freeze() }

// Thaw ends a [Store.Freeze].
func (s *Store) Thaw() { s.link.Thaw() }

// Delay makes every call from now on take d; 0 ends the delay. If the ctx of a call ends before
// that, the call returns in time, with an unknown outcome, and its request still arrives. A call
// that is lost or unavailable is not delayed.
func (s *Store) Delay(d time.Duration) {
	if d < 0 {
		s.t.Helper()
		s.t.Fatalf("locktest: Delay(%v): less than zero", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Down makes every call fail until [Store.Up], with [driver.ErrUnavailable]: the store reports that
// it cannot work now, and nothing is changed.
func (s *Store) Down() { s.setDown(true) }

// Up ends a [Store.Down].
func (s *Store) Up() { s.setDown(false) }

func (s *Store) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// LoseRequests makes the next n calls, or the next n calls of some verbs, fail with an unknown
// outcome. The requests do not reach the store. The caller gets the error at once, as if the
// connection had been reset. With [Store.Cut] calls hang instead.
//
// The commands LoseRequests, [Store.LoseReplies] and [Store.Unavailable] apply in order: each call
// gets the oldest command that is for its verb and not used up.
func (s *Store) LoseRequests(n int, verbs ...Verb) {
	s.t.Helper()
	s.next("LoseRequests", n, order{chaos.Action{Kind: chaos.RequestLost, For: reset}, verbs})
}

// LoseReplies makes the next n calls, or the next n calls of some verbs, fail with an unknown
// outcome although they succeed in the store.
func (s *Store) LoseReplies(n int, verbs ...Verb) {
	s.t.Helper()
	s.next("LoseReplies", n, order{chaos.Action{Kind: chaos.ReplyLost, For: reset}, verbs})
}

// Unavailable makes the next n calls, or the next n calls of some verbs, fail as with [Store.Down].
func (s *Store) Unavailable(n int, verbs ...Verb) {
	s.t.Helper()
	s.next("Unavailable", n, order{chaos.Action{Kind: chaos.Unavailable}, verbs})
}

// reset is how long a caller waits for the error of a lost call. 0 would mean: until its ctx ends.
const reset time.Duration = 1

// An order is the fault of one call.
type order struct {
	chaos.Action
	verbs []Verb // the calls that it is for; none: all
}

func (s *Store) next(command string, n int, o order) {
	if n < 1 {
		s.t.Helper()
		s.t.Fatalf("locktest: %s(%d): less than one call", command, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.todo = append(s.todo, slices.Repeat([]order{o}, n)...)
}

// apply counts a call and sets its fault on the link. If two calls of one verb run at the same
// time, either may get the fault of the other: they could have come in that order too.
func (s *Store) apply(ctx context.Context, v Verb, on chaos.Verb) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[v]++
	if ctx.Err() != nil {
		return // the link does not send it
	}
	at := slices.IndexFunc(s.todo, func(o order) bool { return concerns(o.verbs, v) })
	switch {
	case at >= 0:
		s.link.Next(on, s.todo[at].Action)
		s.todo = slices.Delete(s.todo, at, at+1)
	case s.down:
		s.link.Next(on, chaos.Action{Kind: chaos.Unavailable})
	case s.delay > 0:
		s.link.Next(on, chaos.Action{Kind: chaos.RequestLate, For: s.delay})
	}
}

// concerns reports whether v is one of verbs. No verbs means all.
func concerns(verbs []Verb, v Verb) bool { return len(verbs) == 0 || slices.Contains(verbs, v) }
