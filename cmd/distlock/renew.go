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
		Use:   "renew HANDLE",
		Short: "Renew a lock for its whole TTL",
		Long: "Renew a lock for its whole TTL. HANDLE is the output of acquire, or - to read it from " +
			"standard input, which keeps it out of the list of processes.",
		Example: "  echo \"$h\" | distlock renew -",
		Args:    exact("HANDLE"),
		RunE: func(c *cobra.Command, args []string) error {
			lease, err := a.attach(c, args[0])
			if err != nil {
				return err
			}
			_, err = lease.Detach(c.Context()) // the lock stays held, and the handle does not change
			return err
		},
	}
}

// attach attaches to the lock of a handle, which also renews the lock.
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
		return nil, fmt.Errorf("%w: want the handle that distlock acquire printed, not the name of the lock", err)
	}
	l, err := a.locker(c)
	if err != nil {
		return nil, err
	}
	return l.Attach(c.Context(), h)
}
