//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// forwarded returns the signals that are forwarded to the child.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}
}

// ends reports whether a signal ends a wait.
func ends(s syscall.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

// forward forwards a signal that this process received to the child.
func (j *job) forward(s syscall.Signal) {
	if !j.group && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		// The terminal has sent the signal to the child too. The child may handle a second signal
		// differently from the first one.
		return
	}
	j.signal(s)
}

// signal sends a signal to the child's process group. If the child is in the process group of this
// process, signal sends to the child and its descendants one by one, because the group may contain
// the rest of a pipeline.
func (j *job) signal(s syscall.Signal) {
	if j.group {
		_ = syscall.Kill(-j.child.Process.Pid, s)
		return
	}
	j.tree.signal(j.child.Process.Pid, s)
}

func killedBy(e *exec.ExitError) (syscall.Signal, bool) {
	s, ok := e.Sys().(syscall.WaitStatus)
	if !ok || !s.Signaled() {
		return 0, false
	}
	return s.Signal(), true
}

func shell(line string) []string { return []string{"/bin/sh", "-c", line} }
