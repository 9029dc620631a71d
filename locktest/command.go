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

// Calls returns how many calls of these verbs were made on this link, whatever became of them; with
// no verb, how many there were in all.
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

// Cut cuts the process off from the store until Heal. Calls hang until their ctx ends, as on a
// network that drops everything, and wake-ups do not come.
func (s *Store) Cut() { s.link.Cut(chaos.All) }

// Heal ends a Cut. What was lost stays lost: calls that still hang fail, with an unknown outcome.
func (s *Store) Heal() { s.link.Heal() }

// Freeze stops everything on the link until Thaw. It differs from Cut in that nothing is lost: what
// hung goes on at Thaw, unless its caller has given up by then.
func (s *Store) Freeze() { s.link.Freeze() }

// Thaw ends a Freeze.
func (s *Store) Thaw() { s.link.Thaw() }

// Delay makes every call from now on take d; 0 ends it. A call whose ctx ends before that returns in
// time, with an unknown outcome, and its request arrives all the same. A call that
// is lost or unavailable is not delayed.
func (s *Store) Delay(d time.Duration) {
	if d < 0 {
		s.t.Helper()
		s.t.Fatalf("locktest: Delay(%v): less than nothing", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Down makes every call fail until Up, with driver.ErrUnavailable: the store says that it cannot
// work for now, and nothing is changed.
func (s *Store) Down() { s.setDown(true) }

// Up ends a Down.
func (s *Store) Up() { s.setDown(false) }

func (s *Store) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// LoseRequests makes the next n calls, or the next n of some verbs, fail with an unknown outcome. They
// do not reach the store. The caller hears of it at once, as of a connection that was
// reset; Cut is for those that hang.
//
// What is commanded by LoseRequests, LoseReplies and Unavailable is done in order: each call meets
// the oldest command that is for its verb and not used up.
func (s *Store) LoseRequests(n int, verbs ...Verb) {
	s.t.Helper()
	s.next("LoseRequests", n, order{chaos.Action{Kind: chaos.RequestLost, For: reset}, verbs})
}

// LoseReplies makes the next n calls, or the next n of some verbs, fail with an unknown outcome
// although the store has served them.
func (s *Store) LoseReplies(n int, verbs ...Verb) {
	s.t.Helper()
	s.next("LoseReplies", n, order{chaos.Action{Kind: chaos.ReplyLost, For: reset}, verbs})
}

// Unavailable makes the next n calls, or the next n of some verbs, fail as if the store was Down.
func (s *Store) Unavailable(n int, verbs ...Verb) {
	s.t.Helper()
	s.next("Unavailable", n, order{chaos.Action{Kind: chaos.Unavailable}, verbs})
}

// reset is how long a caller waits for the error of a lost call. 0 would mean until its
// ctx ends.
const reset time.Duration = 1

// An order is what shall become of one call.
type order struct {
	chaos.Action
	verbs []Verb // of which the call may be; none: any
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

// meet counts a call and tells the link what becomes of it. Of two calls of one verb at a time either
// may meet what was meant for the other: they could as well have come in that order.
func (s *Store) meet(ctx context.Context, v Verb, on chaos.Verb) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[v]++
	if ctx.Err() != nil {
		return // the link does not take it
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

// concerns reports whether v is one of verbs; none are all.
func concerns(verbs []Verb, v Verb) bool { return len(verbs) == 0 || slices.Contains(verbs, v) }
