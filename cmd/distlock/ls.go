package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

// lsLimit bounds the time of a list: a store may have a million names.
const lsLimit = 10 * time.Second

// A claimJSON is the JSON of a claim in the output of ls, show and watch. Times are in seconds.
type claimJSON struct {
	Name    string            `json:"name"`
	Kind    distlock.Kind     `json:"kind"`
	Mode    distlock.Mode     `json:"mode"`
	Holder  string            `json:"holder"`
	Note    string            `json:"note,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Weight  int64             `json:"weight,omitempty"`
	Limit   int64             `json:"limit,omitempty"`
	Fence   uint64            `json:"fence,omitempty"`
	Value   []byte            `json:"value,omitempty"`
	Held    float64           `json:"held"`
	Left    float64           `json:"left,omitempty"`
	Waiting bool              `json:"waiting,omitempty"`
}

func newClaimJSON(c distlock.Claim) claimJSON {
	l := claimJSON{
		Name: c.Name, Kind: c.Kind, Mode: c.Mode, Holder: c.Holder, Note: c.Note, Labels: c.Meta,
		Fence: c.Fence, Value: c.Value, Held: c.Held.Seconds(), Left: c.Left.Seconds(), Waiting: c.Waiting,
	}
	if c.Mode == distlock.ModeCounted {
		l.Weight, l.Limit = c.Weight, c.Limit
	}
	return l
}

func (a *app) ls() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "ls [PREFIX]",
		Short:             "List the holders of names, and the waiters",
		Example:           "  distlock ls deploy/",
		Args:              atMost("PREFIX"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		signals, stop := interruptible(c.Context())
		defer stop()
		ctx, cancel := context.WithTimeout(signals, lsLimit)
		defer cancel()
		table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		defer func() { _ = table.Flush() }() // it fails only if standard output is closed
		const head = "NAME\tKIND\tMODE\tSTATE\tHOLDER\tFOR\tLEFT\tFENCE\tNOTE"
		prefix := ""
		if len(args) > 0 {
			prefix = args[0]
		}
		out := json.NewEncoder(a.out)
		seen := 0
		for claim, err := range l.List(ctx, distlock.KindAny, prefix) {
			if err != nil {
				if seen > 0 && signals.Err() == nil {
					return fmt.Errorf("partial: the list ended after %d lines: %w", seen, err)
				}
				return errors.Join(context.Cause(signals), unlisted(err))
			}
			if seen++; seen == 1 && !asJSON { // after the first answer, so that an error prints no head
				fmt.Fprintln(table, head)
			}
			if asJSON {
				err = out.Encode(newClaimJSON(claim))
			} else {
				err = writeRow(table, claim)
			}
			if err != nil {
				return err
			}
		}
		if seen == 0 && !asJSON {
			fmt.Fprintln(table, head)
		}
		return nil
	}
	return c
}

// unlisted returns the error of a list. If the store cannot list, the error says what to do
// instead.
func unlisted(err error) error {
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return usage("this store does not know the names of its locks and cannot list them: use show NAME; " +
		"for advisory locks of PostgreSQL see the query in docs/pgadvisory.md")
}

func writeRow(w *tabwriter.Writer, c distlock.Claim) error {
	state, fence, left := "held", "-", "-"
	switch {
	case c.Waiting:
		state = "waiting"
	case c.Kept:
		state = "kept"
	}
	if c.Fence > 0 {
		fence = fenceText(c.Fence)
	}
	if c.Left > 0 {
		left = short(c.Left).String()
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%v\t%s\t%s\t%s\n",
		clean(c.Name), c.Kind, c.Mode, state, clean(c.Holder), short(c.Held), left, fence, clean(c.Note))
	return err
}
