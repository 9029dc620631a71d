package sqlite

import (
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/distlock/distlock/driver"
)

// A Machine is a simulated host.
type Machine struct {
	Boot    string
	Elapsed func() time.Duration // nil: the clock of this machine
	Magic   int64                // the number of the file system; 0: the real one
	Limit   time.Duration        // for opening the file; 0: the limit of Open
}

// OpenOn opens a file on a simulated host.
func OpenOn(path string, opt *Options, m Machine) (*Store, error) {
	h, err := thisHost()
	if err != nil {
		return nil, err
	}
	h.boot = m.Boot
	if m.Elapsed != nil {
		h.elapsed = m.Elapsed
	}
	if m.Magic != 0 {
		h.kind = func(string) (fileSystem, error) { return classify(m.Magic), nil }
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(m.Limit, openLimit))
	defer cancel()
	return open(ctx, path, opt, h)
}

// Rows counts the keys, and the rows of the table entry.
func (s *Store) Rows() int {
	n := -1
	_ = s.read(context.Background(), func(t *tx) error {
		n = int(t.base.number("select (select count(*) from key where key > x'') + (select count(*) from entry)"))
		return nil
	})
	return n
}

// Ends counts the keys with something that ends after this reading of the clock.
func (s *Store) Ends(after time.Duration) int {
	n := -1
	_ = s.read(context.Background(), func(t *tx) error {
		n = int(t.base.number(fmt.Sprintf("select count(*) from key where key > x'' and ends > %d", after)))
		return nil
	})
	return n
}

// Now reads the clock of the store.
func (s *Store) Now() time.Duration { return s.now() }

// Run runs a statement on the store's own connection.
func (s *Store) Run(q string) error {
	if err := s.gate.enter(context.Background(), time.Time{}, true); err != nil {
		return err
	}
	defer s.gate.leave()
	return s.base.exec(q)
}

// Forget makes the store forget that a claim is a solo.
func (s *Store) Forget(id driver.ID) { delete(s.solos.all, id) }

// Queued returns how many calls wait at the gate.
func (s *Store) Queued() int {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return len(s.gate.first) + len(s.gate.later)
}

// Taken reports whether a call has the connection.
func (s *Store) Taken() bool {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.gate.taken
}

var Parse = parse

// Plans returns how SQLite runs the statements on the table entry that calls make often.
func (s *Store) Plans() (map[string]string, error) {
	b, out := s.base, map[string]string{}
	names := map[**stmt]string{
		&b.find: "find", &b.oldest: "oldest", &b.ahead: "ahead", &b.behind: "behind", &b.firstEnd: "firstEnd",
		&b.lastEnd: "lastEnd", &b.remove: "remove", &b.expire: "expire",
	}
	for text, at := range b.statements() {
		if names[at] == "" {
			continue
		}
		made, err := b.conn.Prepare("explain query plan " + text)
		if err != nil {
			return nil, err
		}
		var dest [4]sqldriver.Value
		err = (&stmt{made}).rows(dest[:], func() bool {
			out[names[at]] += fmt.Sprintln(dest[3])
			return true
		}, make([]sqldriver.Value, 3)...)
		if err := errors.Join(err, made.Close()); err != nil {
			return nil, err
		}
	}
	return out, nil
}
