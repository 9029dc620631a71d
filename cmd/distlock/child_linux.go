package main

import "syscall"

// attributes of the child: it dies with the thread that started it, and so with us.
func attributes(group bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: group, Pdeathsig: syscall.SIGKILL}
}
