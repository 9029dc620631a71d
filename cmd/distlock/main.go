// Command distlock takes locks from the shell: it runs a command under a lock, hands locks from one
// process to another, and shows who holds what.
//
//	distlock run deploy -- ./deploy.sh
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
