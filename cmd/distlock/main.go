// Command distlock takes locks from the shell: it runs a command under a lock, hands locks from one
// process to another, and shows who holds what.
//
//	distlock run deploy -- ./deploy.sh
package main

import (
	"context"
	"os"

	"github.com/distlock/distlock/open"
)

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, redact: open.Redact, open: open.Open, brief: true}
	os.Exit(a.execute(context.Background(), os.Args[1:]))
}

// close closes the store. One that can be left to the end of the process is: to close a file properly is to wait for the disk.
func (a *app) close() {
	if s, ok := a.source.Store.(interface{ Leave() error }); ok && a.brief {
		_ = s.Leave() // there is nobody to be told
		return
	}
	a.source.Close()
}
