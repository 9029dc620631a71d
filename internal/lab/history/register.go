package history

import "sync"

// A Register is a resource that holds protect: a number that holders increment. It compares fences
// unless it is Plain. The zero Register is ready to use.
type Register struct {
	Name  string
	Plain bool

	mu    sync.Mutex
	fence uint64
	value uint64
}

// Update reads the register, calls pause, if any, and writes the value plus one, all under the
// fence of the hold, and records the write. It reports whether the register accepted the write.
func (h *Hold) Update(reg *Register, pause func()) bool {
	h.r.mu.Lock()
	fence := h.op.Fence
	h.r.mu.Unlock()

	saw, ok := reg.read(fence)
	if pause != nil {
		pause()
	}
	var c *Call
	if reg.Plain {
		c = h.WritePlain(reg.Name, saw, saw+1)
	} else {
		c = h.Write(reg.Name, fence, saw, saw+1)
	}
	if ok = ok && reg.write(fence, saw+1); ok {
		c.End(Done)
	} else {
		c.End(Refused)
	}
	return ok
}

// read raises the fence too: otherwise an older holder could write between the read and the write
// of a newer one, and that update would be lost.
func (r *Register) read(fence uint64) (value uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.guard(fence)
}

func (r *Register) write(fence, value uint64) (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ok = r.guard(fence); ok {
		r.value = value
	}
	return ok
}

func (r *Register) guard(fence uint64) bool {
	if r.Plain {
		return true
	}
	if fence < r.fence {
		return false
	}
	r.fence = fence
	return true
}
