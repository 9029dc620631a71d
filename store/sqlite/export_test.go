package sqlite

import (
	"cmp"
	"context"
	"time"

	"github.com/distlock/distlock/driver"
)

// A Machine is a host of a test's making.
type Machine struct {
	Boot    string
	Elapsed func() time.Duration // nil: that of this machine
	Magic   int64                // of the file system; 0: what it is
	Limit   time.Duration        // for opening the file; 0: that of Open
}

// OpenOn opens a file on a host of a test's making.
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
		h.kind = func(string) (fileSystem, error) { return judged(m.Magic), nil }
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(m.Limit, openLimit))
	defer cancel()
	return open(ctx, path, opt, h)
}

// Rows counts the keys that the file remembers.
func (s *Store) Rows() int {
	n := -1
	_ = s.read(context.Background(), func(t *tx) error {
		n = int(t.base.number("select count(*) from key where key > x''"))
		return nil
	})
	return n
}

// Run runs a statement on the store's own connection.
func (s *Store) Run(q string) error {
	if err := s.gate.enter(context.Background(), time.Time{}, true); err != nil {
		return err
	}
	defer s.gate.leave()
	return s.base.exec(q)
}

// Forget makes the store forget that a claim was all that stood on its key.
func (s *Store) Forget(id driver.ID) { delete(s.solos.all, id) }

// InLine is how many stand before the gate.
func (s *Store) InLine() int {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return len(s.gate.first) + len(s.gate.later)
}

// Taken reports whether somebody has the connection.
func (s *Store) Taken() bool {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.gate.taken
}

var Parse = parse
