package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// showProgress rewrites a line on a terminal a few times a second. stop ends that and erases the
// line. showProgress prints nothing if standard error is no terminal, or a terminal that cannot
// rewrite a line.
func (a *app) showProgress(line func() string) (stop func()) {
	if !isTerminal(a.err) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				fmt.Fprint(a.err, "\r\x1b[K")
				return
			case <-tick.C:
				fmt.Fprint(a.err, "\r"+fit(line(), a.err)+"\x1b[K")
			}
		}
	}()
	return func() { close(end); <-done }
}

// plainText reports whether the output must be ASCII only.
func plainText() bool { return os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" }

// width returns the width of the terminal that a stream is, or 80 if it is none.
func width(stream any) int {
	const page = 80
	f, ok := stream.(*os.File)
	if !ok {
		return page
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return page
}
