package torture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/distlock/distlock/internal/lab/history"
)

// A process runs clients that can be paused and killed.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.WriteCloser // closing it requests the end of the process
	stderr bytes.Buffer
	read   chan struct{} // closed when all output was read

	mu     sync.Mutex
	ops    []history.Op // by number
	stalls []stall
	notes  []Note
	heard  time.Time // the time of the last output
	strays int       // lines that could not be read; the last line of a killed process may be truncated
}

// spawn starts a process for a job. The process dies with the thread that started it.
func spawn(cmd *exec.Cmd, j *Job, note func(*history.Op)) (*process, error) {
	p := &process{name: j.Name, cmd: cmd, read: make(chan struct{})}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, cmd.Stderr = in, &p.stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(out, note)
	if err := json.NewEncoder(in).Encode(j); err != nil {
		p.kill()
		return nil, fmt.Errorf("torture: process %s: %w", p.name, err)
	}
	return p, nil
}

// listen reads the messages of the process until it is gone.
func (p *process) listen(out io.Reader, note func(*history.Op)) {
	defer close(p.read)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var m message
		err := json.Unmarshal(lines.Bytes(), &m)
		p.mu.Lock()
		p.heard = time.Now()
		switch {
		case err != nil:
			p.strays++
		case m.Stall != nil:
			p.stalls = append(p.stalls, *m.Stall)
		case m.Note != nil:
			p.notes = append(p.notes, *m.Note)
		case m.Op != nil && m.N < len(p.ops):
			p.ops[m.N] = *m.Op
		case m.Op != nil: // numbers have no gaps
			p.ops = append(p.ops, *m.Op)
		}
		p.mu.Unlock()
		if m.Op != nil {
			note(m.Op)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		p.mu.Lock()
		p.strays++
		p.mu.Unlock()
	}
}

// kill ends the process and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.read
	_ = p.cmd.Wait()
	_ = p.in.Close()
}

// finish requests the end of the process, and waits for it; after patience the process is killed.
func (p *process) finish(patience time.Duration) error {
	_ = p.in.Close()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	<-p.read
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("torture: process %s: %w: %s", p.name, err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	if p.strays > 0 {
		return fmt.Errorf("torture: process %s: %d lines could not be read", p.name, p.strays)
	}
	return nil
}

// history returns the operations of the process. If the process was killed, its holds ended at that
// time: died is when the signal was sent, and 0 if no signal was sent.
func (p *process) history(died time.Duration) *history.History {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &history.History{Ops: p.ops}
	if died == 0 {
		return h
	}
	var seq int64
	for i := range h.Ops {
		seq = max(seq, h.Ops[i].Call.Seq, h.Ops[i].Return.Seq, h.Ops[i].Wait.Seq)
	}
	for _, op := range h.Ops {
		// A pending acquire of a killed process no longer waits either.
		if op.Kind != history.Acquire || op.Outcome != history.Granted && op.Outcome != history.Pending {
			continue
		}
		gone := history.Op{Kind: history.Gone, Outcome: history.Done, Key: op.Key, Client: op.Client, Hold: op.Hold}
		at := max(died, op.Return.At) // the signal takes a moment
		gone.Call, gone.Return = history.Stamp{At: at, Seq: seq + 1}, history.Stamp{At: at, Seq: seq + 2}
		seq += 2
		h.Ops = append(h.Ops, gone)
	}
	return h
}
