package chaos

import "time"

// A Direction is a set of messages that a cut stops. Several may be combined with |.
type Direction uint8

// The directions.
const (
	Requests Direction = 1 << iota // from the client to the store
	Replies                        // from the store to the client
	Wakes                          // of watches to the client

	All = Requests | Replies | Wakes
)

// Freeze stops everything on the link, requests, replies and wake-ups, until Thaw. A call whose ctx
// ends meanwhile returns; its request is not sent.
func (s *Store) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == nil {
		s.frozen = newSpell()
	}
}

// Thaw ends a freeze, whether it was commanded or drawn. Calls that were stopped continue.
func (s *Store) Thaw() {
	s.mu.Lock()
	old := s.frozen
	s.frozen = nil
	s.until = time.Time{}
	s.mu.Unlock()
	s.lift(old, Frozen)
}

// Cut drops everything that is sent in the directions from now on, until Heal. Callers get no
// reply: see [Options.Timeout]. Cut replaces an earlier cut.
func (s *Store) Cut(d Direction) {
	s.mu.Lock()
	old := s.cut
	s.cut, s.dirs = newSpell(), d
	s.mu.Unlock()
	s.lift(old, CutOff)
}

// Heal ends a cut. Lost messages stay lost, and callers that still wait get their error.
func (s *Store) Heal() {
	s.mu.Lock()
	old := s.cut
	s.cut, s.dirs = nil, 0
	s.mu.Unlock()
	s.lift(old, CutOff)
}

// Next makes the next call of a verb meet an Action, whatever the plan says. Several commands for
// one verb apply to as many calls, in order. For Watch the Action applies to the next wake-up of
// any watch.
func (s *Store) Next(v Verb, a Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[v] = append(s.next[v], a)
}

func newSpell() *spell { return &spell{from: time.Now(), ended: make(chan struct{})} }

// lift ends a commanded state and reports it.
func (s *Store) lift(old *spell, k Kind) {
	if old != nil {
		close(old.ended)
		s.report(Fault{Kind: k, From: old.from, To: time.Now()})
	}
}

func (s *Store) report(f Fault) {
	if f.Client = s.opts.Name; s.opts.Observe != nil {
		s.opts.Observe(f)
	}
}
