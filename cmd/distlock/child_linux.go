package main

import "syscall"

// attributes returns the attributes of the child process. The kernel kills the child when the
// thread that started it ends, so the child ends together with this process.
func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}
