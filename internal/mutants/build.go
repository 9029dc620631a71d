package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// programs are the tests of the packages, compiled once with many mutants in them.
type programs struct {
	in    map[string]bool   // the mutants in the programs
	paths map[string]string // by package; absent if the tests of the package do not compile
}

// build compiles the tests of all chosen mutants. A mutant that does not compile is left out, and
// later compiled alone.
func build(ctx context.Context, chosen []mutant, dir string, stdout io.Writer) (programs, error) {
	var packages []string
	for _, m := range chosen {
		packages = append(packages, m.Pkg)
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	for {
		c, err := combine(chosen)
		if err != nil {
			return programs{}, err
		}
		overlay, err := c.write(dir)
		if err != nil {
			return programs{}, err
		}
		p := programs{in: c.names, paths: map[string]string{}}
		var out strings.Builder
		for _, batch := range batches(packages) {
			p.compile(ctx, batch, overlay, dir, &out)
		}
		guilty := blamed(out.String(), c.names)
		if len(guilty) == 0 || ctx.Err() != nil {
			if len(p.paths) < len(packages) {
				fmt.Fprintf(stdout, "mutants: some tests do not compile with many mutants, so each of those mutants is compiled alone:\n%s", out.String())
			}
			return p, ctx.Err()
		}
		fmt.Fprintf(stdout, "mutants: compiled alone: %s\n", strings.Join(guilty, ", "))
		chosen = slices.DeleteFunc(slices.Clone(chosen),
			func(m mutant) bool { return slices.Contains(guilty, m.Name) })
	}
}

// batches groups packages so that the programs of a batch have different names.
func batches(packages []string) (all [][]string) {
	for _, p := range packages {
		i := slices.IndexFunc(all, func(batch []string) bool {
			return !slices.ContainsFunc(batch,
				func(other string) bool { return program(other) == program(p) })
		})
		if i < 0 {
			all = append(all, nil)
			i = len(all) - 1
		}
		all[i] = append(all[i], p)
	}
	return all
}

// program returns the name that go test -c gives to the tests of a package.
func program(pkg string) string {
	if pkg == "" {
		return "distlock.test" // the root package
	}
	return path.Base(pkg) + ".test"
}

// compile compiles the tests of some packages. It writes the output of the compiler to out.
func (p programs) compile(
	ctx context.Context, packages []string, overlay, dir string, out *strings.Builder,
) {
	to, err := os.MkdirTemp(dir, "tests-")
	if err != nil {
		out.WriteString(err.Error())
		return
	}
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o",
		to + string(filepath.Separator)}
	for _, pkg := range packages {
		args = append(args, "./"+pkg)
	}
	// A missing program shows an error.
	text, _ := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	out.Write(text)
	for _, pkg := range packages {
		file := filepath.Join(to, program(pkg))
		if _, err := os.Stat(file); err == nil {
			p.paths[pkg] = file
		}
	}
}

var position = regexp.MustCompile(`(?m)^(?:.*/)?([^/:\s]+):\d+(?::\d+)?: `)

// blamed returns the mutants in whose branches the compiler found a mistake. The compiler reports a
// missing return at the end of the function, so no mutant is blamed for it.
func blamed(out string, names map[string]bool) (guilty []string) {
	for _, match := range position.FindAllStringSubmatch(out, -1) {
		if names[match[1]] && !slices.Contains(guilty, match[1]) {
			guilty = append(guilty, match[1])
		}
	}
	return guilty
}

// run runs tests of a program with one mutant switched on, or none.
func (p programs) run(
	ctx context.Context, most time.Duration, on string, m mutant,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, most+limit)
	defer cancel()
	args := []string{"-test.count=1", "-test.v", "-test.paniconexit0",
		"-test.timeout=" + most.String(), "-test.run=" + pattern(m.Test)}
	args = append(args, slices.DeleteFunc(slices.Clone(m.Args),
		func(a string) bool { return a == "-args" })...)
	cmd := exec.CommandContext(ctx, p.paths[m.Pkg], args...)
	cmd.Dir = "./" + m.Pkg
	cmd.Env = append(os.Environ(), variable+"="+on)
	cmd.WaitDelay = 10 * time.Second // a leftover process of the test may keep the output open
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// pattern returns the -run pattern of a test. Each part of the name may list several, separated
// by |.
func pattern(test string) string { return "^(" + strings.ReplaceAll(test, "/", ")$/^(") + ")$" }
