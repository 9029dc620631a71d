package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

func (a *app) breaks() *cobra.Command {
	var of target
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:   "break NAME --reason TEXT",
		Short: "Take a lock away from whoever holds it",
		Long: "Take a lock away from whoever holds it; or with --kind all slots of a name, all passes that count, a result that is kept, or the leadership. The holder may go on working " +
			"until its next renewal: what it does then only a fence can stop.",
		Example:           "  distlock break deploy --reason 'ci-3 is gone' --yes\n  distlock break nightly@2030-01-31 --kind once --reason 'run it again' --yes",
		Args:              exact("NAME"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the holder and for the record")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	of.flag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		if strings.TrimSpace(reason) == "" {
			return usage("--reason is missing")
		}
		key, err := of.check(c, args[0])
		if err != nil {
			return err
		}
		why, err := of.why(c.Context(), l) // it checks the name too
		if err != nil {
			return err
		}
		if !yes {
			if err := a.confirm(why); err != nil {
				return err
			}
		}
		broken, err := driver.Break(c.Context(), a.source.Store, key, 0, reason)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return usage("this store cannot take a lock from its holder: end the program that holds it; for PostgreSQL's advisory locks see docs/pgadvisory.md")
		case errors.Is(err, driver.ErrInvalid):
			return &exitError{exitUsage, err}
		case err != nil:
			return &exitError{exitUnavailable, err}
		case len(broken) > 0:
			a.printBroken(title(of.kind, of.name), of.kind, broken)
			return nil
		}
		if other := of.others(c.Context(), l, held); other != "" {
			return usage("nobody holds the lock of %s, but there is its %s: nothing was broken", clean(of.name), other)
		}
		_, err = fmt.Fprintf(a.out, "%s was held by nobody\n", title(of.kind, of.name))
		return err
	}
	return c
}

// confirm asks for the name again.
func (a *app) confirm(why distlock.Reason) error {
	if !isTerminal(a.in) {
		return usage("nobody can be asked here: give --yes")
	}
	a.printReason(why)
	fmt.Fprintf(a.err, "type the name again to break it: ")
	text, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimRight(text, "\r\n") != why.Name {
		return usage("that is another name: nothing was broken")
	}
	return nil
}

// printBroken tells what was taken from whom.
func (a *app) printBroken(name, kind string, broken []driver.Claim) {
	if kind == "rate" { // there may be thousands
		passes := int64(0)
		for _, b := range broken {
			passes += b.Weight
		}
		fmt.Fprintf(a.out, "%s is broken: %d passes were taken\n", name, passes)
		return
	}
	for _, b := range broken {
		if b.Kept {
			fmt.Fprintf(a.out, "%s is broken: it was left by %s\n", name, clean(b.Holder))
			continue
		}
		fmt.Fprintf(a.out, "%s is broken: it was %s\n", name, heldBy(distlock.Claim{Holder: b.Holder, Held: b.Held, Left: b.Left, Fence: b.Fence}))
	}
}
