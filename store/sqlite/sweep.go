package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	// memory is how long the last fence of an idle key is kept after the clock has passed it.
	memory = 10 * time.Minute

	// Every sweepEvery grants, and once in a second with grants, sweepStep keys are looked at. A grant adds one key
	// at most, so the idle ones always grow fewer.
	sweepEvery = 64
	sweepStep  = 4 * sweepEvery
)

// sweeps is how far the sweep has come.
type sweeps struct {
	grants int
	next   time.Duration
	from   []byte // keys up to this one have been looked at
}

// sweep forgets a few keys that have been idle for long.
func (t *tx) sweep(s *sweeps, granted bool) error {
	if granted {
		s.grants++
	}
	if s.grants < sweepEvery && t.now < s.next {
		return nil
	}
	s.grants, s.next = 0, t.now+time.Second
	background := context.Background()
	from := s.from
	if from == nil {
		from = []byte{}
	}
	var to []byte
	err := t.base.bound.QueryRowContext(background, from, sweepStep-1).Scan(&to)
	last := errors.Is(err, sql.ErrNoRows)
	if err != nil && !last {
		return err
	}
	if last {
		to = []byte{}
	}
	old := int64(wall()) - memory.Microseconds()
	done, err := t.base.sweep.ExecContext(background, from, last, to, int64(t.now), old)
	if err != nil {
		return err
	}
	s.from = to
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	_, err = t.base.swept.ExecContext(background, old) // what was swept is below
	return err
}
