package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

func (a *app) breaks() *cobra.Command {
	var of target
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "break NAME --reason TEXT",
		Short: "Take a lock away from its holder",
		Long: "Take a lock away from its holder. With --kind, take away all slots of a name, all passes " +
			"of its rate limit, its stored result, or its leadership. The holder notices the loss at " +
			"its next renewal and may work until then: only a fencing token can reject its writes.",
		Example: "  distlock break deploy --reason 'ci-3 is gone' --yes\n" +
			"  distlock break nightly@2030-01-31 --kind once --reason 'run it again' --yes",
		Args:              exact("NAME"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().StringVar(&reason, "reason", "", "why; stored, and reported to the holder")
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation")
	of.flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		if strings.TrimSpace(reason) == "" {
			return usage("--reason is missing")
		}
		if _, err := of.check(c, args[0]); err != nil {
			return err
		}
		status, err := l.Status(c.Context(), of.kind, of.name) // also validates the name
		if err != nil {
			return err
		}
		if !yes {
			if err := a.confirm(status); err != nil {
				return err
			}
		}
		var broken []distlock.Claim
		if held(status) { // a lock that is granted from here on is not meant
			broken, err = l.Break(c.Context(), of.kind, of.name, highest(status.Holders), reason)
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return usage("this store cannot take a lock from its holder: stop the program that holds it; " +
				"for advisory locks of PostgreSQL see docs/pgadvisory.md")
		case err != nil:
			return err
		case len(broken) > 0:
			a.printBroken(title(of.kind, of.name), of.kind, broken)
			return nil
		}
		if other := of.others(c.Context(), l, held); other != "" {
			return usage("nobody holds the lock %s, but the name is in use as %s: nothing was broken", clean(of.name), other)
		}
		if now, err := l.Status(c.Context(), of.kind, of.name); err == nil && held(status) && held(now) {
			return &exitError{exitBusy, errors.New(title(of.kind, of.name) + " has another holder by now: nothing was broken")}
		}
		_, err = fmt.Fprintf(a.out, "%s was held by nobody\n", title(of.kind, of.name))
		return err
	}
	return c
}

// highest returns the highest fence of some claims; AllFences if one has none.
func highest(claims []distlock.Claim) (fence uint64) {
	for _, c := range claims {
		if c.Fence == 0 {
			return distlock.AllFences
		}
		fence = max(fence, c.Fence)
	}
	return fence
}

// confirm makes the user type the name again.
func (a *app) confirm(s distlock.Status) error {
	if !isTerminal(a.in) {
		return usage("standard input is not a terminal, so break cannot be confirmed: give --yes")
	}
	a.printStatus(s)
	fmt.Fprintf(a.err, "type the name again to break it: ")
	text, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimRight(text, "\r\n") != s.Name {
		return usage("that is another name: nothing was broken")
	}
	return nil
}

// printBroken prints the claims that were broken, and their holders.
func (a *app) printBroken(name string, kind distlock.Kind, broken []distlock.Claim) {
	if kind == distlock.KindRateLimit { // a rate limit may have thousands of claims
		passes := int64(0)
		for _, b := range broken {
			passes += b.Weight
		}
		fmt.Fprintf(a.out, "%s is broken: %d passes were taken\n", name, passes)
		return
	}
	for _, b := range broken {
		if b.Kept {
			fmt.Fprintf(a.out, "%s is broken: it was stored by %s\n", name, clean(b.Holder))
			continue
		}
		fmt.Fprintf(a.out, "%s is broken: it was %s\n", name, heldBy(b))
	}
}
