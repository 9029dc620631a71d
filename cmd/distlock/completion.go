package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

// completeLimit is how long completion waits for the names of locks. After that it offers none.
const completeLimit = 200 * time.Millisecond

func (a *app) completion() *cobra.Command {
	return &cobra.Command{
		Use:     "completion bash|zsh|fish",
		Short:   "Print a script that completes commands, flags and the names of live locks",
		Example: "  source <(distlock completion bash)", Args: exact("SHELL"), ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(a.out, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.out)
			case "fish":
				return c.Root().GenFishCompletion(a.out, true)
			}
			return usage("unknown shell %.64q: want bash, zsh or fish", args[0])
		},
	}
}

// completeNames offers the names of live locks, or of the kind that --kind names. It offers none if
// the store does not answer within completeLimit.
func (a *app) completeNames(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // the shell completes files for the command
	}
	kind := string(distlock.KindLock)
	if f := c.Flags().Lookup("kind"); f != nil {
		kind = f.Value.String()
	}
	names := make(chan []string, 1)
	go func() { // connecting may take longer than completeLimit
		late := *a // this goroutine may still run after a has ended
		l, err := late.locker(c)
		if err != nil {
			names <- nil
			return
		}
		defer late.source.Close()
		ctx, cancel := context.WithTimeout(c.Context(), completeLimit)
		defer cancel()
		var all []string
		for claim, err := range l.List(ctx, distlock.KindAny, begun) {
			if err != nil {
				names <- nil
				return
			}
			// A name with control characters could change the terminal or end the line. It is not
			// offered.
			if string(claim.Kind) == kind && clean(claim.Name) == claim.Name && !slices.Contains(all, claim.Name) {
				all = append(all, claim.Name)
			}
		}
		names <- all
	}()
	select {
	case all := <-names:
		return all, cobra.ShellCompDirectiveNoFileComp
	case <-time.After(completeLimit):
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
