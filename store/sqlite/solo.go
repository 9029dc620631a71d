package sqlite

import (
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
)

// soloLimit is how many solos are remembered, and soloSize how long each may be: a MiB in all.
const (
	soloLimit = 1024
	soloSize  = 1024
)

// A solo is a claim that was all that stood on its key when this store wrote it.
type solo struct {
	id    driver.ID
	state []byte
	ends  time.Duration
}

// solos are the claims that may be released by one statement: if the row still has the very text that was written, nobody has
// come in between, and nothing but the claim is there to be looked at. That is most claims, and
// half of what a release costs.
type solos struct{ all map[driver.ID]solo }

// note remembers what a transaction wrote.
func (s *solos) note(t *tx) {
	for _, one := range t.solos {
		if len(one.state) > soloSize {
			delete(s.all, one.id) // the text that is remembered is an old one
			continue
		}
		if s.all == nil || len(s.all) >= soloLimit {
			s.all = map[driver.ID]solo{} // claims that ran out are forgotten so; the others cost a read
		}
		s.all[one.id] = one
	}
}

// alone releases a claim by one statement, a transaction of its own. If it cannot, nothing is changed and it is not done.
func (s *Store) alone(id driver.ID) (done bool, err error) {
	one, ok := s.solos.all[id]
	if !ok || s.closed || s.base == nil {
		return false, nil
	}
	delete(s.solos.all, id)
	if one.ends <= s.now() {
		return false, nil
	}
	n, err := s.base.empty.exec([]byte(id.Key), one.state)
	switch {
	case busy(err), !s.same(): // after the statement: a file that is in its place now was so when the claim was released
		return false, nil
	case full(err):
		return true, definite(err)
	case err != nil:
		_ = s.drop()
		return true, fmt.Errorf("sqlite: release: %w", err) // it may have been written: nobody knows
	case n == 0:
		return false, nil
	case one.ends <= s.now():
		// The clock is read again, since the process may have been stopped before it had the file: then the
		// claim had ended by itself.
		return true, driver.ErrNotHeld
	}
	return true, nil
}
