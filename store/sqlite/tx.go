package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/distlock/distlock/driver"
)

// busyLimit is how long a call waits for others that use the file, if its TTL does not say less.
const busyLimit = 2 * time.Second

// A call says how long a transaction is waited for.
type call struct {
	limit time.Duration
	first bool // renewals and releases go before acquires

	alone *driver.ID // if this is still all that stands on its key, it is to be released
}

// A tx is a transaction that has the file to itself.
type tx struct {
	base  *base
	now   time.Duration // read when the file was had
	pokes []poke
	solos []solo // claims that are all that stands on their keys, as they are written
}

// write runs f in a transaction. If f returns an error, nothing is changed.
func (s *Store) write(ctx context.Context, c call, f func(*tx) error) error {
	until := time.Now().Add(min(c.limit, busyLimit))
	if err := s.gate.enter(ctx, until, c.first); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	if c.alone != nil {
		if done, err := s.alone(*c.alone); done {
			s.gate.leave()
			s.post.hear(keyNews(c.alone.Key))
			return err
		}
	}
	t, err := s.begin(ctx, c, until)
	if err == nil {
		err = s.end(t, f(t))
	}
	if err == nil {
		s.solos.note(t)
	}
	s.gate.leave()
	if err != nil {
		return err
	}
	s.post.send(t.pokes)
	return nil
}

// begin waits until the file is ours. Whatever goes wrong here has changed nothing.
func (s *Store) begin(ctx context.Context, c call, until time.Time) (*tx, error) {
	if s.closed {
		return nil, fmt.Errorf("%w: the store is closed", driver.ErrUnavailable)
	}
	for try := 0; ; try++ {
		if s.base == nil {
			if err := s.reopen(ctx, until); err != nil {
				return nil, definite(err)
			}
		}
		_, err := s.base.begin.exec()
		reason := errBusy
		switch {
		case !busy(err) && !s.same(): // what went wrong in the other file is of no interest
			_ = s.drop()
			reason = errGone
		case err == nil:
			return &tx{base: s.base, now: s.now()}, nil
		case !busy(err):
			_ = s.drop() // opened anew, the file may be well again
			return nil, definite(err)
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w: %w", driver.ErrUnavailable, s.by(reason), context.Cause(ctx))
		case time.Now().After(until):
			return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, s.by(reason))
		}
		longest := laterPause
		if c.first {
			longest = firstPause
		}
		pause(ctx, try, longest)
	}
}

// by adds to errBusy which process has the file, if that is known.
func (s *Store) by(reason error) error {
	if reason == errBusy { //nolint:errorlint // this very one
		if who := user(s.path); who != "" {
			return fmt.Errorf("%w: %s", reason, who)
		}
	}
	return reason
}

// reopen opens the file again.
func (s *Store) reopen(ctx context.Context, until time.Time) (err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	s.base, err = s.connect(ctx)
	return err
}

// errGone says that the file was replaced, and the one that is there now could not be had in time.
var errGone = errors.New("the file was removed or replaced")

// same reports whether the open file is still the one at the path. In a file that nobody opens any more a grant excludes nobody, a
// release does not tell the holder of its loss, and those who look see nothing of what others do.
func (s *Store) same() bool {
	file, err := os.Lstat(s.path)
	return err == nil && os.SameFile(file, s.base.file)
}

// end commits, or takes everything back if err is not nil.
func (s *Store) end(t *tx, err error) error {
	if err != nil {
		s.undo(t, err)
		return definite(err)
	}
	_, err = t.base.commit.exec()
	if err == nil {
		return nil
	}
	s.undo(t, err)
	if full(err) || busy(err) {
		return definite(err) // the last frame, which makes it a commit, was not written
	}
	return fmt.Errorf("sqlite: commit: %w", err) // it may have been written: nobody knows
}

// undo takes back what a transaction has written, which counts for nothing without a commit.
func (s *Store) undo(t *tx, err error) {
	_, failed := t.base.rollback.exec()
	if full(err) {
		// It may be the log that fills the disk. SQLite moves it to its place after a commit, of which there will be none.
		_ = t.base.checkpoint()
	}
	if failed != nil || broke(err) {
		_ = s.drop()
	}
}

// The longest pauses before the file is asked for again. Renewals ask more often than acquires, so that they are not starved by other
// processes either.
const (
	firstPause = time.Millisecond
	laterPause = 4 * time.Millisecond
)

// pause waits before the file is asked for again, longer from try to try.
func pause(ctx context.Context, try int, longest time.Duration) {
	d := min(50*time.Microsecond<<min(try, 10), longest)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// load reads what is known about a key, now.
func (t *tx) load(name string) (*key, error) {
	k := &key{name: name}
	there, state, err := t.base.row(k)
	if err != nil {
		return nil, err
	}
	if !there {
		// It may have been swept: new fences must be above those it had.
		file := &key{}
		_, _, err := t.base.row(file)
		k.last = file.last
		return k, err
	}
	k.there = true
	if err := k.decode(state); err != nil {
		return nil, err
	}
	k.expire(t.now)
	return k, nil
}

// row reads the row of a key.
func (b *base) row(k *key) (there bool, state []byte, err error) {
	var dest [2]sqldriver.Value
	there, err = b.load.row(dest[:], []byte(k.name))
	if err != nil || !there {
		return false, nil, err
	}
	fence, ok := dest[0].(int64)
	if !ok || fence < 0 || fence > math.MaxInt64/2 {
		return false, nil, errState
	}
	k.last = uint64(fence)
	state, _ = dest[1].([]byte)
	return true, state, nil
}

// save writes a key back, and lets its news be told after the commit.
func (t *tx) save(k *key) error {
	if !k.there && k.idle() {
		return nil
	}
	state, ends := k.encode()
	if len(k.claims) == 1 && len(k.line)+len(k.broken)+len(k.onlookers) == 0 {
		t.solos = append(t.solos, solo{driver.ID{Key: k.name, Owner: k.claims[0].owner}, state, ends})
	}
	_, err := t.base.save.exec([]byte(k.name), int64(k.last), int64(ends), state)
	t.pokes = append(t.pokes, k.pokes...)
	return err
}

func (k *key) idle() bool { return len(k.claims)+len(k.line)+len(k.broken)+len(k.onlookers) == 0 }
