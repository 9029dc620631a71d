package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock/driver"
)

func (a *app) breaks() *cobra.Command {
	var reason string
	var yes bool
	c := &cobra.Command{
		Use:               "break NAME --reason TEXT",
		Short:             "Take a lock away from whoever holds it",
		Long:              "Take a lock away from whoever holds it. The holder may go on working until its next renewal: what it does then only a fence can stop.",
		Example:           "  distlock break deploy --reason 'ci-3 is gone' --yes",
		Args:              exact("NAME"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for the holder and for the record")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		if strings.TrimSpace(reason) == "" {
			return usage("--reason is missing")
		}
		why, err := l.Why(c.Context(), args[0]) // it checks the name too
		if err != nil {
			return err
		}
		if !yes {
			if !isTerminal(a.in) {
				return usage("nobody can be asked here: give --yes")
			}
			a.printReason(why)
			fmt.Fprintf(a.err, "type the name again to break it: ")
			text, _ := bufio.NewReader(a.in).ReadString('\n')
			if strings.TrimRight(text, "\r\n") != args[0] {
				return usage("that is another name: nothing was broken")
			}
		}
		key, err := storeKey(args[0])
		if err != nil {
			return err
		}
		broken, err := driver.Break(c.Context(), a.source.Store, key, reason)
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, driver.ErrInvalid):
			return &exitError{exitUsage, err}
		case err != nil:
			return &exitError{exitUnavailable, err}
		}
		if len(broken) == 0 {
			_, err = fmt.Fprintf(a.out, "%s was held by nobody\n", args[0])
			return err
		}
		for _, b := range broken {
			fmt.Fprintf(a.out, "%s is broken: it was %s\n", args[0], heldBy(b.Holder, b.Held, b.Fence))
		}
		return nil
	}
	return c
}
