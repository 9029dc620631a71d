package locktest

import (
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
)

// A Rival is somebody else who holds a lock, at a test's command. It is not renewed and does not end
// by itself.
type Rival struct {
	base  *base
	id    driver.ID
	fence uint64
}

// Hold gives a free lock to somebody else, who holds it, before all who wait for it, until
// Release. The holder is what others are told about who it is. If the lock is held, the test
// fails.
func (s *Store) Hold(name, holder string) *Rival {
	s.t.Helper()
	return s.seize("Hold", name, holder, true)
}

// Steal takes a lock away from all who hold it and gives it to somebody else, before all who wait for
// it. Those who held it learn of it from their next renewal, after about a third of their TTL: in a
// bubble that is no time, elsewhere take a short TTL. If nobody holds the lock, the
// test fails.
func (s *Store) Steal(name string) *Rival {
	s.t.Helper()
	return s.seize("Steal", name, "thief", false)
}

// Fence returns the rival's fence. It is higher than those of all who held the lock before.
func (r *Rival) Fence() uint64 { return r.fence }

// Release gives the lock back, as an Unlock does: the first in line is next. If the rival does not
// hold it any more, it does nothing.
func (r *Rival) Release() {
	if err := r.base.Release(context.Background(), r.id); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		panic(err) // the memory store fails only with its ctx
	}
}

// Expire ends the claims of all who hold a lock, as if their TTL were over: it is free for the
// next. They learn of it from their next renewal, as with Steal. If nobody holds the
// lock, the test fails.
func (s *Store) Expire(name string) {
	if err := s.base.expire(keyOf(name)); err != nil {
		s.t.Helper()
		s.t.Fatalf("locktest: Expire(%q): %v; held are %q", name, err, s.base.names())
	}
}

// Holders returns who holds a lock in the store, oldest first; nobody, if it is free.
func (s *Store) Holders(name string) []string {
	held, _ := s.base.claims(keyOf(name))
	var holders []string
	for _, c := range held {
		holders = append(holders, c.Holder)
	}
	return holders
}

// Waiting returns how many stand in the store's line for a lock. A Locker stands there once, however
// many of its calls wait, and not at all while it holds the lock itself.
func (s *Store) Waiting(name string) int {
	_, line := s.base.claims(keyOf(name))
	return len(line)
}

func (s *Store) seize(command, name, holder string, free bool) *Rival {
	id, res, err := s.base.seize(keyOf(name), holder, free)
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("locktest: %s(%q): %v; held are %q", command, name, err, s.base.names())
	}
	return &Rival{base: s.base, id: id, fence: res.Fence}
}
