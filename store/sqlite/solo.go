package sqlite

import (
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
)

// A store remembers at most soloLimit solos of at most soloSize bytes each: 1 MiB in total.
const (
	soloLimit = 1024
	soloSize  = 1024
)

// A solo is a claim that was the only entry of its key when this store wrote it.
type solo struct {
	id    driver.ID
	state []byte
	ends  time.Duration
}

// solos are the claims that one statement may release: if the row still has the same bytes as when
// it was written, no other process has changed it, and the claim is its only entry. Most claims are
// solos, and a release then costs half.
type solos struct{ all map[driver.ID]solo }

// note remembers the solos that a transaction wrote.
func (s *solos) note(t *tx) {
	for _, one := range t.solos {
		if len(one.state) > soloSize {
			delete(s.all, one.id) // the remembered bytes are old
			continue
		}
		if s.all == nil || len(s.all) >= soloLimit {
			s.all = map[driver.ID]solo{} // this forgets expired claims; the release of others costs a read
		}
		s.all[one.id] = one
	}
}

// alone releases a solo by one statement, which is a transaction of its own. If done is false,
// nothing was changed, and the caller releases the claim in the usual way.
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
	case busy(err), !s.same(): // checked after the statement: the file at the path now was also there during the release
		return false, nil
	case full(err):
		return true, definite(err)
	case err != nil:
		_ = s.drop()
		return true, fmt.Errorf("sqlite: release: %w", err) // the statement may have been written
	case n == 0:
		return false, nil
	case one.ends <= s.now():
		// The process may have been stopped before the statement ran. The claim had expired then,
		// so the clock is read again.
		return true, driver.ErrNotHeld
	}
	return true, nil
}
