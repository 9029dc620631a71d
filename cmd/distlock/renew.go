package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

func (a *app) renew() *cobra.Command {
	return &cobra.Command{
		Use:     "renew HANDLE",
		Short:   "Give a lock its whole TTL again",
		Long:    "Give a lock its whole TTL again. HANDLE is what acquire printed, or - for standard input, which keeps it out of the list of processes.",
		Example: "  echo \"$h\" | distlock renew -",
		Args:    exact("HANDLE"),
		RunE: func(c *cobra.Command, args []string) error {
			lease, err := a.attach(c, args[0])
			if err != nil {
				return err
			}
			_, err = lease.Handle(c.Context()) // the lock stays taken, and the handle is as it was
			return err
		},
	}
}

// attach goes on with a handle, which renews it.
func (a *app) attach(c *cobra.Command, text string) (*distlock.Lease, error) {
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(a.in, maxFile))
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(string(b))
	}
	h, err := distlock.ParseHandle(text)
	if err != nil {
		return nil, fmt.Errorf("%w: give the handle that distlock acquire printed, not the name of the lock", err)
	}
	l, err := a.locker(c)
	if err != nil {
		return nil, err
	}
	return l.Attach(c.Context(), h)
}
