//go:build unix && !linux

package main

import "syscall"

// A family is a child. Its descendants are not known on this system.
type family struct{}

func (*family) signal(child int, s syscall.Signal) { _ = syscall.Kill(child, s) }
