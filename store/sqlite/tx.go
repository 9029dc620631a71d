package sqlite

import (
	"bytes"
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

// busyLimit is how long a call waits for other processes that use the file, unless its TTL requires
// less.
const busyLimit = 2 * time.Second

// A call says how long, and with which priority, a call waits for the file.
type call struct {
	limit time.Duration
	first bool // renewals and releases go before acquires
	joins bool // it may share a transaction, and may be run again after a rollback

	alone *driver.ID // a claim to release by one statement, if it is a solo
}

// A tx is a transaction that has the file to itself.
type tx struct {
	base    *base
	now     time.Duration // read after the transaction had the file
	wakeups []wakeup
	solos   []solo // claims that are the only entries of their keys, as written
}

// groupLimit is how many calls one transaction has at most. They share one wait for the disk, and
// other processes wait for all of them.
const groupLimit = 16

// errApart means that a call has to run in a transaction of its own.
var errApart = errors.New("the transaction was rolled back because of another call")

// write runs f in a transaction. If f returns an error, nothing is changed. Calls that wait for the
// connection at the same time may share the transaction, and return after its commit.
func (s *Store) write(ctx context.Context, c call, f func(*tx) error) error {
	until := time.Now().Add(min(c.limit, busyLimit))
	for {
		e := &entrant{call: c, f: f}
		if err := s.gate.join(ctx, until, e); err != nil {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		if !e.by {
			s.lead(ctx, until, e)
		} else if e.err == errApart { //nolint:errorlint // errApart itself, not wrapped
			c.joins = false
			continue
		}
		s.notifier.send(e.wakeups)
		return e.err
	}
}

// lead runs a call that has the gate, and calls that wait.
func (s *Store) lead(ctx context.Context, until time.Time, e *entrant) {
	defer s.gate.leave()
	if e.alone != nil && !s.gate.queued() {
		if done, err := s.alone(*e.alone); done {
			s.notifier.deliver(keyHint(e.alone.Key))
			e.err = err
			return
		}
	}
	t, err := s.begin(ctx, e.call, until)
	if err != nil {
		e.err = err
		return
	}
	var group []*entrant
	if err = t.run(e); err == nil && e.joins {
		var apart error
		if group, apart = s.join(t); apart != nil {
			s.undo(t, apart)
			finish(group, errApart)
			if t, e.err = s.begin(ctx, e.call, until); e.err != nil {
				e.wakeups = nil
				return
			}
			group, err = nil, t.run(e)
		}
	}
	if e.err = s.end(t, err); e.err != nil {
		e.wakeups = nil
	} else {
		s.solos.note(t)
	}
	finish(group, e.err)
}

// join runs the calls that are next in a transaction. It returns an error if the transaction must
// be rolled back.
func (s *Store) join(t *tx) (group []*entrant, err error) {
	for len(group) < groupLimit-1 {
		e := s.gate.take()
		if e == nil {
			break
		}
		group = append(group, e)
		t.now = s.now() // not before the call: its TTL counts from now on
		e.err = t.run(e)
		if e.err != nil && !errors.Is(e.err, driver.ErrNotHeld) { // which has changed nothing
			return group, e.err
		}
	}
	if len(group) > 0 && !s.same() { // as in begin: these calls came later
		return group, errGone
	}
	return group, nil
}

// run runs a call, and keeps its wake-ups for it.
func (t *tx) run(e *entrant) error {
	t.wakeups = nil
	err := e.f(t)
	e.wakeups = t.wakeups
	return err
}

// finish ends calls of a transaction. If the commit failed, what they have read may not hold.
func finish(group []*entrant, err error) {
	for _, e := range group {
		if err != nil {
			e.err, e.wakeups = err, nil
		}
		close(e.ready)
	}
}

// begin waits until the transaction has the file. If begin fails, nothing was changed.
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
		case !busy(err) && !s.same(): // the file was replaced: an error of the old file does not matter
			_ = s.drop()
			reason = errGone
		case err == nil:
			return &tx{base: s.base, now: s.now()}, nil
		case !busy(err):
			_ = s.drop() // a new connection may work again
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

// by adds the process that has the file to errBusy, if it is known.
func (s *Store) by(reason error) error {
	if reason == errBusy { //nolint:errorlint // errBusy itself, not wrapped
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

// errGone means that the file was replaced, and that the new one could not be opened in time.
var errGone = errors.New("the file was removed or replaced")

// same reports whether the open file is still the file at the path. In a file that was replaced, a
// grant excludes no other process, a release does not report the loss to the holder, and a read
// does not see the claims of other processes.
func (s *Store) same() bool {
	file, err := os.Lstat(s.path)
	return err == nil && os.SameFile(file, s.base.file)
}

// end commits, or rolls back if err is not nil.
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
		return definite(err) // the last frame, which completes a commit, was not written
	}
	return fmt.Errorf("sqlite: commit: %w", err) // the commit may have been written
}

// undo rolls back a transaction that was not committed.
func (s *Store) undo(t *tx, err error) {
	_, failed := t.base.rollback.exec()
	if full(err) {
		// The write-ahead log may fill the disk. SQLite moves it into the file only after a
		// commit, and no commit can succeed now.
		_ = t.base.checkpoint()
	}
	if failed != nil || broke(err) {
		_ = s.drop()
	}
}

// The longest pauses between two attempts to get the file. Renewals try more often than acquires,
// so that other processes cannot starve them either.
const (
	firstPause = time.Millisecond
	laterPause = 4 * time.Millisecond
)

// pause waits before the next attempt to get the file, longer from try to try.
func pause(ctx context.Context, try int, longest time.Duration) {
	d := min(50*time.Microsecond<<min(try, 10), longest)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// load reads the current state of a key, and removes what has ended.
func (t *tx) load(name string) (*key, error) {
	k, err := t.peek(name)
	if err == nil && k.exists {
		err = k.expire()
	}
	return k, err
}

// peek reads the state of a key, and changes nothing.
func (t *tx) peek(name string) (*key, error) {
	var dest [2]sqldriver.Value
	found, err := t.base.load.row(dest[:], []byte(name))
	if err != nil {
		return nil, err
	}
	if found {
		return t.decode(name, dest[0], dest[1])
	}
	// The key may have been swept: new fences must be higher than its last one.
	if _, err = t.base.load.row(dest[:], []byte{}); err != nil {
		return nil, err
	}
	file, err := t.decode("", dest[0], dest[1])
	if err != nil {
		return nil, err
	}
	return &key{t: t, name: name, last: file.last}, nil
}

// decode returns the key in a row.
func (t *tx) decode(name string, fence, state sqldriver.Value) (*key, error) {
	last, ok := fence.(int64)
	if !ok || last < 0 || last > math.MaxInt64/2 {
		return nil, errState
	}
	k := &key{t: t, name: name, last: uint64(last), exists: true, wasLast: uint64(last)}
	k.wasState, _ = state.([]byte)
	if err := k.decode(k.wasState); err != nil {
		return nil, err
	}
	return k, nil
}

// save writes a key back, if it has changed. Its hints are sent after the commit.
func (t *tx) save(k *key) error {
	if !k.exists && k.idle() {
		return nil
	}
	state, ends := k.encode()
	if k.first != nil && k.rows.none() && len(k.broken)+len(k.observers) == 0 {
		t.solos = append(t.solos, solo{driver.ID{Key: k.name, Owner: k.first.owner}, state, ends})
	}
	t.wakeups = append(t.wakeups, k.wakeups...)
	k.wakeups = nil
	if k.exists && k.last == k.wasLast && bytes.Equal(state, k.wasState) {
		return nil
	}
	_, err := t.base.save.exec([]byte(k.name), int64(k.last), int64(ends), state)
	k.exists, k.wasLast, k.wasState = true, k.last, state
	return err
}

func (k *key) idle() bool {
	return k.first == nil && k.rows.none() && len(k.broken)+len(k.observers) == 0
}
