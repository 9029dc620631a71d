package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
)

func (a *app) show() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show who holds a lock, and its line",
		Example:           "  distlock show deploy",
		Args:              exact("NAME"),
		ValidArgsFunction: a.completeNames,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := a.locker(c)
		if err != nil {
			return err
		}
		why, err := l.Why(c.Context(), args[0])
		if err != nil {
			return err
		}
		if asJSON {
			out := struct {
				Name    string `json:"name"`
				Holders []line `json:"holders"`
				Line    []line `json:"line"`
			}{why.Key, []line{}, []line{}}
			for _, h := range why.Holders {
				out.Holders = append(out.Holders, newLine(h))
			}
			for _, w := range why.Line {
				out.Line = append(out.Line, newLine(w))
			}
			return json.NewEncoder(a.out).Encode(out)
		}
		return a.printReason(why)
	}
	return c
}

func (a *app) printReason(why distlock.Reason) error {
	if len(why.Holders)+len(why.Line) == 0 {
		_, err := fmt.Fprintf(a.out, "%s is free\n", why.Key)
		return err
	}
	for _, h := range why.Holders {
		fmt.Fprintf(a.out, "%s is %s, %s", why.Key, heldBy(h.Holder, h.Held, h.Fence), h.Mode)
		if h.Left > 0 {
			fmt.Fprintf(a.out, ", %v left unless renewed", short(h.Left))
		}
		fmt.Fprintln(a.out)
		if h.Note != "" {
			fmt.Fprintf(a.out, "  note: %s\n", clean(h.Note))
		}
		for _, k := range slices.Sorted(maps.Keys(h.Meta)) {
			fmt.Fprintf(a.out, "  %s=%s\n", clean(k), clean(h.Meta[k]))
		}
		if len(h.Value) > 0 {
			fmt.Fprintf(a.out, "  value: %q\n", h.Value)
		}
	}
	for i, w := range why.Line {
		fmt.Fprintf(a.out, "%d in line: %s for %v\n", i+1, clean(w.Holder), short(w.Held))
	}
	return nil
}
