package main

import "github.com/spf13/cobra"

func (a *app) release() *cobra.Command {
	return &cobra.Command{
		Use:   "release HANDLE",
		Short: "Release a lock",
		Long: "Release a lock. HANDLE is the output of acquire, or - to read it from standard input, " +
			"which keeps it out of the list of processes.",
		Example: "  echo \"$h\" | distlock release -",
		Args:    exact("HANDLE"),
		RunE: func(c *cobra.Command, args []string) error {
			lease, err := a.attach(c, args[0])
			if err != nil {
				return err
			}
			return lease.Unlock(c.Context())
		},
	}
}
