//go:build unix && !linux

package main

import "syscall"

// A processTree is the child alone: its descendants are not known on this system.
type processTree struct{}

func (*processTree) signal(child int, s syscall.Signal) { _ = syscall.Kill(child, s) }
