//go:build unix && !linux

package main

import "syscall"

// attributes of the child. It outlives us if we are killed: then the lock ends with its TTL, and the
// fence is what protects.
func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group}
}
