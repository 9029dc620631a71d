//go:build !linux

package testenv

import "testing"

// A Power is the power supply of a server's machine. It needs Linux.
type Power struct{}

// NewPower skips the test.
func NewPower(t testing.TB, _ *Server) *Power {
	t.Helper()
	preload(t, "", nil, nil)
	return nil
}

// Fail is never called.
func (p *Power) Fail() {}
