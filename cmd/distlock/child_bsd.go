//go:build unix && !linux

package main

import "syscall"

// attributes returns the attributes of the child process. On this system the child outlives a
// distlock process that is killed. The lock then ends with its TTL, and only the fencing token
// protects the resource.
func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group}
}
