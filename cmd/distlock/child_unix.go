//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// forwarded are the signals that are passed on to the child.
func forwarded() []os.Signal {
	return []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// ends reports whether a signal ends a wait.
func ends(s syscall.Signal) bool { return s != syscall.SIGUSR1 && s != syscall.SIGUSR2 }

// forward passes a signal on.
func (j *job) forward(s syscall.Signal) {
	if !j.group && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return // the terminal has sent it to the child as well: twice may mean something else to it
	}
	j.signal(s)
}

// signal sends to the child's group, or to the child and its descendants if they share our group: that may hold the
// rest of a pipeline.
func (j *job) signal(s syscall.Signal) {
	if j.group {
		_ = syscall.Kill(-j.child.Process.Pid, s)
		return
	}
	j.family.signal(j.child.Process.Pid, s)
}

func killedBy(e *exec.ExitError) (syscall.Signal, bool) {
	s, ok := e.Sys().(syscall.WaitStatus)
	if !ok || !s.Signaled() {
		return 0, false
	}
	return s.Signal(), true
}

func shell(line string) []string { return []string{"/bin/sh", "-c", line} }
