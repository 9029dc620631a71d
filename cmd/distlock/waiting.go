package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/distlock/distlock"
)

// showWaiting shows the holder of the lock on a terminal, from the first second of the wait on,
// until stop is called.
func (j *job) showWaiting(ctx context.Context, locker *distlock.Locker) (stop func()) {
	if !isTerminal(j.app.err) || j.quiet || j.try {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	dumb := os.Getenv("TERM") == "dumb"
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-ctx.Done():
				if shown && !dumb {
					fmt.Fprint(j.app.err, "\r\x1b[K")
				}
				return
			case <-tick.C:
			}
			if dumb && shown {
				continue // a dumb terminal cannot rewrite a line, so one line is enough
			}
			line := j.waitingLine(ctx, locker, time.Since(began))
			if ctx.Err() != nil {
				continue
			}
			shown = true
			if dumb {
				fmt.Fprintln(j.app.err, line)
			} else {
				fmt.Fprint(j.app.err, "\r"+fit(line, j.app.err)+"\x1b[K")
			}
		}
	}()
	return func() { cancel(); <-done }
}

// waitingLine returns the line that names the holder of the lock.
func (j *job) waitingLine(ctx context.Context, locker *distlock.Locker, waited time.Duration) string {
	line := fmt.Sprintf("waiting for %s %v", j.name, short(waited))
	if j.slots > 0 {
		return line // slots have many holders
	}
	call, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	why, err := locker.Status(call, distlock.KindLock, j.name)
	if err != nil || len(why.Holders) == 0 {
		return line
	}
	h := why.Holders[0]
	line += ": " + heldBy(h)
	own := func(c distlock.Claim) bool { return j.recorder.isOwner(c.Owner) }
	if at := slices.IndexFunc(why.Waiters, own); at > 0 {
		line += fmt.Sprintf(", %d ahead", at)
	}
	return line
}

// fit cuts a line that the terminal would wrap: a wrapped line cannot be rewritten in place.
func fit(line string, w io.Writer) string {
	f, ok := w.(*os.File)
	if !ok {
		return line
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if r := []rune(line); err == nil && width > 0 && len(r) >= width {
		return string(r[:width-1])
	}
	return line
}
