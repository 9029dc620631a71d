package sqlite

import (
	"database/sql/driver"
	"time"
)

const (
	// memory is how long the last fence of an idle key is kept after the clock has passed it.
	memory = 10 * time.Minute

	// After every sweepEvery grants, and once in a second with grants, a sweep examines sweepStep
	// keys. A grant adds at most one key, so the number of idle keys always falls.
	sweepEvery = 64
	sweepStep  = 4 * sweepEvery
)

// sweeps is the progress of the sweep.
type sweeps struct {
	grants int
	next   time.Duration
	from   []byte // keys up to this one have been examined
}

// sweep removes a few keys that have been idle for long.
func (t *tx) sweep(s *sweeps, granted bool) error {
	if granted {
		s.grants++
	}
	if s.grants < sweepEvery && t.now < s.next {
		return nil
	}
	s.grants, s.next = 0, t.now+time.Second
	from := s.from
	if from == nil {
		from = []byte{}
	}
	var dest [1]driver.Value
	more, err := t.base.bound.row(dest[:], from, int64(sweepStep-1))
	if err != nil {
		return err
	}
	to, _ := dest[0].([]byte)
	if !more {
		to = []byte{} // sweep to the end now, and from the start the next time
	}
	old := int64(wall()) - memory.Microseconds()
	n, err := t.base.sweep.exec(from, !more, to, int64(t.now), old)
	if err != nil {
		return err
	}
	s.from = to
	if n == 0 {
		return nil
	}
	_, err = t.base.swept.exec(old) // the fences of the swept keys are lower
	return err
}
