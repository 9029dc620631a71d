package locktest

import (
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
)

// A Rival is another holder of a lock, which a test controls. Its claim is not renewed and does not
// expire.
type Rival struct {
	base  *base
	id    driver.ID
	fence uint64
}

// Hold gives a free lock to a [Rival] before all waiters, until [Rival.Release]. holder is the name
// that others see. If the lock is held, the test fails.
func (s *Store) Hold(name, holder string) *Rival {
	s.t.Helper()
	return s.seize("Hold", name, holder, true)
}

// Steal takes a lock away from all its holders and gives it to a [Rival], before all waiters. The
// former holders get the loss with their next renewal, after about a third of their TTL. In a
// bubble that takes no real time; use a short TTL elsewhere. If no one holds the lock, the test
// fails.
func (s *Store) Steal(name string) *Rival {
	s.t.Helper()
	return s.seize("Steal", name, "thief", false)
}

// Fence returns the fencing token of the rival. It is higher than those of all earlier holders.
func (r *Rival) Fence() uint64 { return r.fence }

// Release releases the lock, like an Unlock: the head of the queue is next. If the rival no longer
// holds the lock, Release does nothing.
func (r *Rival) Release() {
	if err := r.base.Release(context.Background(), r.id); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		panic(err) // the memory store fails only with its ctx
	}
}

// Expire ends the claims of all holders of a lock, as if their TTL had ended: the lock is free for
// the next waiter. The former holders get the loss with their next renewal, as with [Store.Steal].
// If no one holds the lock, the test fails.
func (s *Store) Expire(name string) {
	if err := s.base.expire(keyOf(name)); err != nil {
		s.t.Helper()
		s.t.Fatalf("locktest: Expire(%q): %v; held are %q", name, err, s.base.names())
	}
}

// Holders returns the holders of a lock in the store, oldest first. It returns none if the lock is
// free.
func (s *Store) Holders(name string) []string {
	held, _ := s.base.claims(keyOf(name))
	var holders []string
	for _, c := range held {
		holders = append(holders, c.Holder)
	}
	return holders
}

// Waiting returns the length of the store's queue for a lock. A Locker has one queue entry for all
// its waiting calls, and none while it holds the lock itself.
func (s *Store) Waiting(name string) int {
	_, queue := s.base.claims(keyOf(name))
	return len(queue)
}

func (s *Store) seize(command, name, holder string, free bool) *Rival {
	id, res, err := s.base.seize(keyOf(name), holder, free)
	if err != nil {
		s.t.Helper()
		s.t.Fatalf("locktest: %s(%q): %v; held are %q", command, name, err, s.base.names())
	}
	return &Rival{base: s.base, id: id, fence: res.Fence}
}
