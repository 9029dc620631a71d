package keeper

import "time"

// A Listener is told what becomes of a hold, in order and by one call at a time. It is called without
// any lock held, never after Stop has returned but for a call that had already begun. Other holds
// may have to wait for it, though not their trust: it should return soon.
type Listener interface {
	// Renewed tells how one renewal ended.
	Renewed(Renewal)
	// Lost tells that the hold is lost and why. It is the last call.
	Lost(cause error)
}

// A Renewal tells how one renewal ended.
type Renewal struct {
	Took   time.Duration
	Left   time.Duration // the trust that was left when it ended
	Margin time.Duration // the same whatever MaxHold says, if it succeeded in time and the claim had been given all of its TTL; or 0
	Thin   bool          // the margin was less than another try may take
	Behind int           // how many wait for the key, if Err is nil
	Err    error         // nil, or why it failed; it will be tried again unless the hold is lost
	Risk   bool          // the renewal before this one had failed
}

// news is a renewal, or a loss.
type news struct {
	r    Renewal
	lost error
}

// tell tells the listener what it has yet to be told, unless somebody else is telling it. News
// of one hold may come from several goroutines, and from within the listener itself.
func (h *Hold) tell() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.telling {
		return
	}
	h.telling = true
	defer func() { h.telling = false }()
	for len(h.news) > 0 {
		n := h.news[0]
		h.news = h.news[1:]
		h.announce(n)
	}
	h.news = nil
}

// announce calls the listener without the keeper's lock, which is held before and after.
func (h *Hold) announce(n news) {
	h.k.mu.Unlock()
	defer h.k.mu.Lock() // also if the listener panics
	if n.lost != nil {
		h.listener.Lost(n.lost)
	} else {
		h.listener.Renewed(n.r)
	}
}
