package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// quiet is the time between two lines of progress where a line cannot be overwritten.
const quiet = 10 * time.Second

// A progress shows what is measured now: on a terminal one line that is overwritten, elsewhere a
// line every ten seconds.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	last     time.Time // of the last line
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, began: time.Now(), last: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// show shows a text, or nothing if a line was written a moment ago.
func (p *progress) show(format string, args ...any) {
	switch now := time.Now(); {
	case p == nil: // one of the competing processes
	case p.terminal:
		fmt.Fprintf(p.w, "\r\033[K%v  "+format+" ", append([]any{now.Sub(p.began).Round(time.Second)}, args...)...)
	case now.Sub(p.last) >= quiet:
		p.last = now
		fmt.Fprintf(p.w, "... %v  "+format+"\n", append([]any{now.Sub(p.began).Round(time.Second)}, args...)...)
	}
}

// clear removes the line from a terminal.
func (p *progress) clear() {
	if p != nil && p.terminal {
		fmt.Fprint(p.w, "\r\033[K")
	}
}
