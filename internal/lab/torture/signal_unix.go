//go:build unix

package torture

import "syscall"

// pause stops the process, and resume continues it.
func (p *process) pause() error  { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
