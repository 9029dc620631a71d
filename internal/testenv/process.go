package testenv

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	stopLimit = 5 * time.Second // for a process that received its stop signal, before it is killed
	tailLines = 30
)

// A Process is a child process of the test. It ends with the test.
type Process struct {
	name string
	tb   testing.TB // nil until a test owns it
	log  string     // path
	stop os.Signal  // the signal that requests an orderly end

	mu     sync.Mutex
	run    *run // nil if it was never started, or is not ours
	paused bool
	mark   int64 // where the log of the current run begins
}

// A run is one start of a process, until its end.
type run struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // result of Wait; read it after done
}

// launch starts cmd and waits for it in the background. The goroutine stays on the thread that
// started the process: on Linux the process dies with its parent, and the parent is the thread.
func launch(cmd *exec.Cmd) (*run, error) {
	r := &run{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			r.err = cmd.Wait()
			close(r.done)
		}
	}()
	return r, <-started
}

// ended reports whether the process has ended.
func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// PID returns the process id, or 0 if the process is not the test's own.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return 0
	}
	return p.run.cmd.Process.Pid
}

// Running reports whether the process runs or is paused. It is false for a process that is not the
// test's own.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run != nil && !p.run.ended()
}

// LogPath returns the path of the log: everything that the process wrote to standard output and
// standard error. It is empty if the process is not the test's own.
func (p *Process) LogPath() string { return p.log }

// Log returns the last lines of the log.
func (p *Process) Log() string {
	lines := strings.Split(strings.TrimRight(p.logSince(0), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// logSince returns the log from the byte on.
func (p *Process) logSince(from int64) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	return string(b[min(from, int64(len(b))):])
}

// Kill ends the process and its children with SIGKILL, and returns when they are gone.
// It does nothing to a process that has ended.
func (p *Process) Kill() { p.control("kill", p.kill) }

// Stop sends the stop signal to the process, also if it is paused, and returns when it is gone. A
// process that takes longer than 5 s is killed.
func (p *Process) Stop() { p.control("stop", func(r *run) error { return p.end(r, p.stop) }) }

// Pause stops the process and its children with SIGSTOP. They keep their connections, and
// do nothing until Resume.
func (p *Process) Pause() {
	p.control("pause", func(r *run) error {
		if r.ended() {
			return errors.New("it has ended")
		}
		if err := pauseTree(r.cmd.Process.Pid); err != nil {
			return err
		}
		p.paused = true
		return nil
	})
}

// Resume lets the process and its children run again with SIGCONT. It does nothing to a
// process that has ended.
func (p *Process) Resume() {
	p.control("resume", func(r *run) error {
		if r.ended() {
			return nil
		}
		p.paused = false
		return resumeTree(r.cmd.Process.Pid)
	})
}

// control calls f with the current run, and reports its error.
func (p *Process) control(what string, f func(*run) error) {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		p.tb.Errorf("testenv: cannot %s %s: it is shared with other tests; start one of your own", what, p.name)
		return
	}
	if err := f(p.run); err != nil {
		p.tb.Errorf("testenv: cannot %s %s: %v", what, p.name, err)
	}
}

// kill and end are called with mu held.
func (p *Process) kill(r *run) error {
	p.paused = false
	if r.ended() {
		return nil
	}
	if err := killTree(r.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	return nil
}

func (p *Process) end(r *run, request os.Signal) error {
	if r.ended() {
		return nil
	}
	if p.paused {
		p.paused = false
		if err := resumeTree(r.cmd.Process.Pid); err != nil {
			return err
		}
	}
	if request == os.Kill || r.cmd.Process.Signal(request) != nil {
		return p.kill(r)
	}
	select {
	case <-r.done:
		return nil
	case <-time.After(stopLimit):
		return p.kill(r)
	}
}

// close ends the process if it still runs. It sends the given signal first.
func (p *Process) close(request os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		return nil
	}
	return p.end(p.run, request)
}

// begin starts the next run of the process, with its output appended to the log.
func (p *Process) begin(cmd *exec.Cmd, death os.Signal, as *account) error {
	if p.run != nil && !p.run.ended() {
		return errors.New("it is running")
	}
	if err := shown(cmd); err != nil {
		return err
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if p.mark, err = log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	if cmd.Dir == "" {
		cmd.Dir = filepath.Dir(p.log)
	}
	setAttributes(cmd, death, as)
	run, err := launch(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.run, p.paused = run, false
	return nil
}
