// Command vetfor vets the packages of the current folder's module, tests included, for other
// systems. It does what `GOOS=... go vet ./...` does, but it type-checks the dependencies from
// their source. go vet compiles them for the other system first, which takes minutes without a
// cache.
//
// usage: vetfor GOOS...
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: vetfor GOOS...")
		os.Exit(64)
	}
	bad := false
	for _, system := range os.Args[1:] {
		if err := check(".", system, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "vetfor: %s: %v\n", system, err)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

// check vets the module in dir for a system, and prints what is wrong. Like go for another system,
// it turns cgo off.
func check(dir, system string, out io.Writer) error {
	loaded, err := packages.Load(&packages.Config{
		Mode:  packages.LoadAllSyntax | packages.NeedModule,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		Tests: true,
	}, "./...")
	if err != nil {
		return err
	}
	if len(loaded) == 0 {
		return errors.New("no packages")
	}
	wrong := 0
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			fmt.Fprintln(out, err)
			wrong++
		}
	})
	if wrong > 0 {
		return fmt.Errorf("%d errors", wrong)
	}
	graph, err := checker.Analyze(vet.Suite, loaded, nil)
	if err != nil {
		return err
	}
	for act := range graph.All() {
		if act.Err != nil {
			fmt.Fprintln(out, act, act.Err)
			wrong++
		}
		if act.IsRoot {
			wrong += len(act.Diagnostics)
		}
	}
	if wrong == 0 {
		return nil
	}
	if err := graph.PrintText(out, -1); err != nil {
		return err
	}
	return fmt.Errorf("%d findings", wrong)
}
