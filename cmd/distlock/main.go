// Command distlock acquires distributed locks from the shell. It runs a command while it holds a
// lock, passes locks from one process to another, and shows the holders of locks. The command finds
// the fencing token of the lock in its environment.
//
//	distlock run deploy -- ./deploy.sh
package main

import (
	"context"
	"os"

	"github.com/distlock/distlock/open"
)

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, redact: open.Redact, open: open.Open, exits: true}
	os.Exit(a.execute(context.Background(), os.Args[1:]))
}

// close closes the store. A store with a method Leave is left to the end of the process, because
// closing its file properly waits for the disk.
func (a *app) close() {
	if s, ok := a.source.Store.(interface{ Leave() error }); ok && a.exits {
		_ = s.Leave() // the process ends: nothing can be done about an error
		return
	}
	a.source.Close()
}
