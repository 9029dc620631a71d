package etcd

import "strings"

// Prefix returns Options.Prefix.
func (s *Store) Prefix() string { return strings.TrimSuffix(s.prefix, "/") }

// BeforeSmash calls f one time, after Break has read its key.
func (s *Store) BeforeSmash(f func()) { s.smashing = f }
