package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A runner runs mutants.
type runner struct {
	choice
	dir    string
	tests  programs
	stdout io.Writer

	mu    sync.Mutex
	count map[verdict]int
}

// run runs the chosen mutants, in order. It returns an error if a mutant was not caught. Mutants
// without time to run are no error.
func (r *runner) run(ctx context.Context, chosen []mutant) (err error) {
	start := time.Now()
	if r.tests, err = build(ctx, chosen, r.dir, r.stdout); err != nil {
		return err
	}
	built := time.Now()
	if err := r.control(ctx, chosen); err != nil {
		return err
	}
	fmt.Fprintf(r.stdout,
		"control: the named tests pass on the unbroken code; compiled in %v, run in %v\n",
		built.Sub(start).Round(time.Second), time.Since(built).Round(time.Second))
	began := time.Now()
	parallel(chosen, func(m mutant) {
		if r.budget > 0 && time.Since(began) > r.budget || ctx.Err() != nil {
			r.report(m, late, "", 0)
			return
		}
		tried := time.Now()
		v, detail := r.try(ctx, m)
		r.report(m, v, detail, time.Since(tried))
	})
	fmt.Fprintf(r.stdout, "%d mutants, %d survived, %d broken, in %v\n",
		len(chosen)-r.count[late], r.count[survived], r.count[broken], time.Since(start).Round(time.Second))
	if n := r.count[late]; n > 0 {
		fmt.Fprintf(r.stdout, "mutants: %d NOT RUN, no time left; make nightly runs all\n", n)
	}
	if n := r.count[survived] + r.count[broken]; n > 0 {
		return fmt.Errorf("%d of %d not caught", n, len(chosen))
	}
	return ctx.Err()
}

// report prints the result of a mutant.
func (r *runner) report(m mutant, v verdict, detail string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[v]++
	if v == late {
		return
	}
	fmt.Fprintf(r.stdout, "%-9s %-34s by %-46s %5.1fs\n", v, m.Name, m.Test, took.Seconds())
	if v != caught {
		fmt.Fprintf(r.stdout, "          %s: %s\n          again: scripts/mutants '^%s$'\n", m.Why,
			detail, m.Name)
	}
}

// parallel calls f for all, a few at a time, and starts them in order.
func parallel[T any](all []T, f func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU()+1) // one more: some wait for a server
	for _, one := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(one)
		})
	}
	wg.Wait()
}

// control runs the named tests on the unbroken code. A test that fails there catches nothing.
func (r *runner) control(ctx context.Context, chosen []mutant) error {
	var mu sync.Mutex
	var failed error
	parallel(controls(chosen), func(c mutant) {
		covered := slices.DeleteFunc(slices.Clone(chosen), func(m mutant) bool { return !c.covers(m) })
		out, err := decided(covered, func() (string, error) {
			if r.tests.paths[c.Pkg] != "" {
				return r.tests.run(ctx, 5*limit, "none", c)
			}
			return goTest(ctx, "", 5*limit, c)
		})
		if err != nil {
			err = fmt.Errorf("the unbroken code fails:\n%s", out)
		}
		for _, m := range covered {
			if err == nil && !strings.Contains(out, "--- PASS: "+m.Test+" ") {
				err = fmt.Errorf("there is no test %s in %q", m.Test, m.Pkg)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
	})
	return failed
}

// controls returns the runs that cover the tests of all mutants once. A pattern cannot name
// subtests of several tests, so there is one run for each test. Subtests of the same depth share a
// run.
func controls(chosen []mutant) (all []mutant) {
	for _, m := range chosen {
		i := slices.IndexFunc(all, func(c mutant) bool { return c.covers(m) })
		if i < 0 {
			all = append(all, mutant{Name: top(m.Test), Pkg: m.Pkg, Args: m.Args, Test: m.Test})
			continue
		}
		have, more := strings.Split(all[i].Test, "/"), strings.Split(m.Test, "/")
		for at := range have {
			if !slices.Contains(strings.Split(have[at], "|"), more[at]) {
				have[at] += "|" + more[at]
			}
		}
		all[i].Test = strings.Join(have, "/")
	}
	return all
}

// covers reports whether a control runs the test of a mutant.
func (c mutant) covers(m mutant) bool {
	return c.Pkg == m.Pkg && slices.Equal(c.Args, m.Args) && c.Name == top(m.Test) &&
		strings.Count(c.Test, "/") == strings.Count(m.Test, "/")
}

// top returns the test of a subtest.
func top(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

// try runs the test on the mutant.
func (r *runner) try(ctx context.Context, m mutant) (verdict, string) {
	if r.tests.in[m.Name] && r.tests.paths[m.Pkg] != "" {
		return m.repeat(r.times, func() (string, error) { return r.tests.run(ctx, limit, m.Name, m) })
	}
	overlay, err := m.lay(r.dir)
	if err != nil {
		return broken, err.Error()
	}
	return m.repeat(r.times, func() (string, error) { return goTest(ctx, overlay, limit, m) })
}

// repeat runs the test the given number of times, or until a run does not catch the mutant.
func (m mutant) repeat(times int, test func() (string, error)) (verdict, string) {
	for i := range times {
		out, err := decided([]mutant{m}, test)
		if v, detail := verdictOf(m.Test, out, err); v != caught {
			return v, fmt.Sprintf("run %d: %s", i+1, detail)
		}
	}
	return caught, ""
}

// decided calls a test until it has a verdict on all mutants, five times at most. On a busy machine
// a rule of drivertest skips if it saw too little.
func decided(ms []mutant, test func() (string, error)) (out string, err error) {
	for range 5 {
		out, err = test()
		if !slices.ContainsFunc(ms, func(m mutant) bool { return strings.Contains(out, "--- SKIP: "+m.Test+" ") }) {
			break
		}
	}
	return out, err
}
