// Package process starts the running program again in other processes: the hosts, servers and
// workers of the examples.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A Process is this program in another role, which its arguments choose. It reads and prints lines.
type Process struct {
	*exec.Cmd
	Out *bufio.Reader // its standard output
	in  io.WriteCloser
}

// Start starts this program with arguments. The process is killed when ctx ends. Its standard error
// is that of this process.
func Start(ctx context.Context, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &Process{c, bufio.NewReader(out), in}, c.Start()
}

// Send sends the process a line.
func (p *Process) Send(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// Line returns the next line that the process prints, without the newline. The error is io.EOF if
// there is none.
func (p *Process) Line() (string, error) {
	line, err := p.Out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// End closes the input of the process, and returns when the process has ended. Read its output
// first.
func (p *Process) End() error { return errors.Join(p.in.Close(), p.Wait()) }

// Kill ends the process as kill -9 does, and returns when the process is gone.
func (p *Process) Kill() error {
	err := p.Process.Kill()
	_ = p.Wait() // an error, since the process was killed
	return err
}
