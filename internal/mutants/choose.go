package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// share is the sample that replaces the changed mutants if the changes are unknown.
const share = "1/8"

// A choice says which mutants to run, and how.
type choice struct {
	wanted *regexp.Regexp
	times  int
	since  string // a revision, or auto; empty: changes do not matter
	share  string // k/n of all; empty: no sample
	seed   int64  // of the sample; negative: by the commit
	most   int    // of all of these; 0: no limit
	budget time.Duration
}

// parse reads the arguments of the command.
func parse(args []string, stderr io.Writer) (c choice, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&c.times, "times", 1, "number of runs of every mutant; each run must catch it")
	flags.StringVar(&c.since, "since", "",
		"only mutants of packages, tests and rows that differ from this `revision`; auto: from the last landed commit")
	flags.StringVar(&c.share, "share", "",
		"only a sample, such as 1/8; with -since: a sample in addition")
	flags.Int64Var(&c.seed, "seed", -1,
		"which sample: seeds 0 to n-1 together cover all mutants (default: by the commit)")
	flags.IntVar(&c.most, "most", 0,
		"if more are chosen, a sample of at most so many (default: no limit)")
	flags.DurationVar(&c.budget, "budget", 0,
		"start no mutant after this time; compiling does not count (default: no limit)")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	pattern := "."
	if flags.NArg() > 0 {
		pattern = strings.Join(flags.Args(), "|")
	}
	if c.wanted, err = regexp.Compile(pattern); err == nil && c.share != "" {
		_, _, err = parts(c.share)
	}
	return c, err
}

// parts reads a share, such as 1/8.
func parts(share string) (k, n int, err error) {
	if _, err = fmt.Sscanf(share+" .", "%d/%d .", &k, &n); err != nil || k < 1 || n < k {
		return 0, 0, fmt.Errorf("a share is a part of all, such as 1/8: %q", share)
	}
	return k, n, nil
}

// choose returns the mutants to run: the changed ones first, then the sample. It writes its choice
// and the reason to stdout.
func (c choice) choose(ctx context.Context, all []mutant, stdout io.Writer) ([]mutant, error) {
	all = slices.DeleteFunc(all, func(m mutant) bool {
		return !c.wanted.MatchString(m.Name) && !slices.ContainsFunc(m.classes(), c.wanted.MatchString)
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("no mutant matches %q", c.wanted)
	}
	if c.since == "" && c.share == "" {
		return all, nil
	}
	var chosen []mutant
	if c.since != "" {
		rev, diff, err := c.changes(ctx)
		if err != nil {
			c.share = cmp.Or(c.share, share)
			fmt.Fprintf(stdout, "mutants: unknown differences from %s (%v): a sample of %s instead\n",
				cmp.Or(rev, c.since), err, c.share)
		} else {
			chosen = slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !diff.touches(m) })
			fmt.Fprintf(stdout, "mutants: %d of packages that differ from %s\n", len(chosen), rev)
		}
	}
	seed := uint64(max(c.seed, 0))
	if c.seed < 0 {
		seed = seedOf(ctx)
	}
	if c.share == "" {
		return c.limit(chosen, seed, stdout), nil
	}
	k, n, err := parts(c.share)
	if err != nil {
		return nil, err
	}
	picked := sample(all, k, n, seed)
	fmt.Fprintf(stdout, "mutants: %d as a sample: scripts/mutants -share %s -seed %d '%s'\n",
		len(picked), c.share, seed%uint64(n), c.wanted)
	return c.limit(join(chosen, picked), seed, stdout), nil
}

// limit returns the mutants, or a sample if there are too many.
func (c choice) limit(chosen []mutant, seed uint64, stdout io.Writer) []mutant {
	if c.most == 0 || len(chosen) <= c.most {
		return chosen
	}
	n := (len(chosen) + c.most - 1) / c.most
	picked := sample(chosen, 1, n, seed)
	fmt.Fprintf(stdout, "mutants: these are too many: %d of them as a sample; make nightly runs all\n", len(picked))
	return picked
}

// changes returns the revision to compare with, and the difference.
func (c choice) changes(ctx context.Context) (rev string, diff change, err error) {
	if rev = c.since; rev == auto {
		if rev, err = base(ctx); err != nil {
			return "", diff, err
		}
	}
	diff, err = changeSince(ctx, rev)
	return rev, diff, err
}

// sample returns k of every n mutants. The table groups mutants by package, so a sample has some of
// each package.
func sample(all []mutant, k, n int, seed uint64) (picked []mutant) {
	for i, m := range all {
		if (uint64(i)+seed)%uint64(n) < uint64(k) {
			picked = append(picked, m)
		}
	}
	return picked
}

// join returns the first mutants, followed by the others that are not among them.
func join(first, others []mutant) []mutant {
	names := map[string]bool{}
	for _, m := range first {
		names[m.Name] = true
	}
	return append(slices.Clone(first),
		slices.DeleteFunc(slices.Clone(others), func(m mutant) bool { return names[m.Name] })...)
}
