package etcd

import (
	"strings"
	"time"
)

// Prefix returns Options.Prefix.
func (s *Store) Prefix() string { return strings.TrimSuffix(s.prefix, "/") }

// Between calls f one time, after Break or Release has read its key.
func (s *Store) Between(f func()) { s.between = f }

// SetPulse sets the time between two tests of the stream of watches. No watch may have begun.
func (s *Store) SetPulse(d time.Duration) { s.watch.pulse = d }

// LongHold is longer than longHold.
const LongHold = 2 * longHold
