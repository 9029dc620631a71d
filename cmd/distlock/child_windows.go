package main

import (
	"os"
	"os/exec"
	"syscall"
)

// Windows has no process groups and no SIGTERM. Ctrl-C reaches the child by its console, and the
// only way to stop the child is to kill it.

func forwarded() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func ends(syscall.Signal) bool { return true }

func (j *job) forward(s syscall.Signal) {
	if s == syscall.SIGTERM {
		j.signal(s)
	}
}

// A processTree is the child alone: its descendants are not known on this system.
type processTree struct{}

func (j *job) signal(syscall.Signal) { _ = j.child.Process.Kill() }

func killedBy(*exec.ExitError) (syscall.Signal, bool) { return 0, false }

func shell(line string) []string { return []string{"cmd", "/c", line} }

func attributes(bool) *syscall.SysProcAttr { return nil }
