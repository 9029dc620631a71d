// Package process starts the running program again, in processes of their own: the hosts, servers and workers of the examples.
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

// A Process is this program in another role, which its arguments tell. It is talked to line by line.
type Process struct {
	*exec.Cmd
	Out *bufio.Reader // what it prints
	in  io.WriteCloser
}

// Start starts this program with arguments. It is killed when ctx ends. What it writes to standard error is shown.
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

// Tell sends the process a line.
func (p *Process) Tell(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// Line returns the next line that the process prints, without its end. It is io.EOF if there is none.
func (p *Process) Line() (string, error) {
	line, err := p.Out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// End closes the input of the process, and returns when it has ended. Read what it prints first.
func (p *Process) End() error { return errors.Join(p.in.Close(), p.Wait()) }

// Kill ends the process as kill -9 does, and returns when it is gone.
func (p *Process) Kill() error {
	err := p.Process.Kill()
	_ = p.Wait() // it was killed
	return err
}
