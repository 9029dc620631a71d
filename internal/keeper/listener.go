package keeper

import "time"

// A Listener gets the events of a hold, in order and one call at a time. The keeper holds no lock
// during a call. After [Hold.Stop] has returned, no new call begins. Other holds may have to wait
// for a call, but not their trust: a call should return soon.
type Listener interface {
	// Renewed reports how one renewal ended.
	Renewed(Renewal)
	// Lost reports that the hold is lost and why. It is the last call.
	Lost(cause error)
}

// A Renewal describes how one renewal ended.
type Renewal struct {
	Took time.Duration
	Left time.Duration // the trust that was left when the renewal ended

	// Margin is Left without the bound of MaxHold. It is 0 if the renewal failed or came too
	// late, or if the claim was provisional.
	Margin time.Duration

	Thin   bool  // Margin was less than another try may take
	Behind int   // how many claims wait for the key, if Err is nil
	Err    error // nil, or why the renewal failed; the keeper tries again unless the hold is lost
	Risk   bool  // the renewal before this one had failed
}

// A notice is a call that the listener has not had yet: a renewal or a loss.
type notice struct {
	r    Renewal
	lost error
}

// notify calls the listener for all queued notices, unless another goroutine is doing so. Several
// goroutines may queue notices of one hold, and the listener itself may do so during a call.
func (h *Hold) notify() {
	h.k.mu.Lock()
	defer h.k.mu.Unlock()
	if h.notifying {
		return
	}
	h.notifying = true
	defer func() { h.notifying = false }()
	for len(h.notices) > 0 {
		n := h.notices[0]
		h.notices = h.notices[1:]
		h.deliver(n)
	}
	h.notices = nil
}

// deliver calls the listener. It releases the keeper's lock for the call and locks it again.
func (h *Hold) deliver(n notice) {
	h.k.mu.Unlock()
	defer h.k.mu.Lock() // also if the listener panics
	if n.lost != nil {
		h.listener.Lost(n.lost)
	} else {
		h.listener.Renewed(n.r)
	}
}
