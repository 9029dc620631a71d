package chaos

import "time"

// A Direction is what a cut stops. Several may be joined by |.
type Direction uint8

// The directions.
const (
	Requests Direction = 1 << iota // from the client to the store
	Replies                        // from the store to the client
	Wakes                          // of watches to the client

	All = Requests | Replies | Wakes
)

// Freeze makes everything on the link hang, requests, replies and wake-ups, until Thaw. A call
// whose ctx ends meanwhile returns; its request is not sent.
func (s *Store) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == nil {
		s.frozen = newSpell()
	}
}

// Thaw ends a freeze, be it commanded or drawn. What hung goes on.
func (s *Store) Thaw() {
	s.mu.Lock()
	old := s.frozen
	s.frozen = nil
	s.until = time.Time{}
	s.mu.Unlock()
	s.lift(old, Frozen)
}

// Cut drops all that goes in some directions from now on, until Heal. Callers hear nothing:
// see Options.Timeout. It replaces an earlier cut.
func (s *Store) Cut(d Direction) {
	s.mu.Lock()
	old := s.cut
	s.cut, s.dirs = newSpell(), d
	s.mu.Unlock()
	s.lift(old, CutOff)
}

// Heal ends a cut. What was lost stays lost, and callers that still wait get their error.
func (s *Store) Heal() {
	s.mu.Lock()
	old := s.cut
	s.cut, s.dirs = nil, 0
	s.mu.Unlock()
	s.lift(old, CutOff)
}

// Next makes the next call of a verb meet an Action, whatever the plan says. Several
// commands for one verb are for as many calls, in order. For Watch it is the next
// wake-up of any watch.
func (s *Store) Next(v Verb, a Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[v] = append(s.next[v], a)
}

func newSpell() *spell { return &spell{from: time.Now(), over: make(chan struct{})} }

// lift ends a commanded state and tells of it.
func (s *Store) lift(old *spell, k Kind) {
	if old != nil {
		close(old.over)
		s.tell(Fault{Kind: k, From: old.from, To: time.Now()})
	}
}

func (s *Store) tell(f Fault) {
	if f.Client = s.opts.Name; s.opts.Observe != nil {
		s.opts.Observe(f)
	}
}
