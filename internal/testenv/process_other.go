//go:build !linux && !darwin

package testenv

import (
	"errors"
	"os"
	"os/exec"
)

// This system has no signals that stop a process, and no users to run servers as. Kill ends only
// the process itself, and servers outlive a test binary that is killed.

var errNoSignals = errors.New("this system cannot pause a process")

type account struct{}

func unprivileged() (*account, error) { return nil, nil }

func (*account) own(string) error { return nil }

func setAttributes(*exec.Cmd, os.Signal, *account) {}

// lockFile reports that the folder is in use, so none is ever swept.
func lockFile(*os.File) bool { return false }

func pauseTree(int) error { return errNoSignals }

func resumeTree(int) error { return errNoSignals }

func killTree(root *os.Process) error { return root.Kill() }
