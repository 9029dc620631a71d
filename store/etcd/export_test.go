package etcd

import "strings"

// Prefix returns Options.Prefix.
func (s *Store) Prefix() string { return strings.TrimSuffix(s.prefix, "/") }
