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
		Use:   "show NAME",
		Short: "Show the holders of a name, and its queue",
		Long: "Show the holders of a name and its waiters: of its lock, its slots, its rate limit, its " +
			"stored result and its election.",
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
		status, err := l.Status(c.Context(), distlock.KindAny, args[0])
		all := status.ByKind()
		switch {
		case err != nil:
			return err
		case asJSON:
			return a.encodeStatus(args[0], all)
		case len(all) == 0:
			_, err := fmt.Fprintf(a.out, "%s is free\n", args[0])
			return err
		}
		for _, s := range all {
			a.printStatus(s)
		}
		return nil
	}
	return c
}

func (a *app) encodeStatus(name string, all []distlock.Status) error {
	out := struct {
		Name    string      `json:"name"`
		Holders []claimJSON `json:"holders"`
		Waiters []claimJSON `json:"waiters"`
	}{name, []claimJSON{}, []claimJSON{}}
	for _, s := range all {
		for _, h := range s.Holders {
			out.Holders = append(out.Holders, newClaimJSON(h))
		}
		for _, w := range s.Waiters {
			out.Waiters = append(out.Waiters, newClaimJSON(w))
		}
	}
	return json.NewEncoder(a.out).Encode(out)
}

// maxPasses is how many passes of a rate limit are printed one by one. A rate limit may have
// thousands.
const maxPasses = 10

func (a *app) printStatus(s distlock.Status) {
	if s.Free() {
		fmt.Fprintf(a.out, "%s is free\n", title(s.Kind, s.Name))
		return
	}
	used, limit := taken(s)
	name := title(s.Kind, s.Name)
	switch s.Kind {
	case distlock.KindSemaphore:
		fmt.Fprintf(a.out, "%s: %d of %d slots are held\n", name, used, limit)
	case distlock.KindRateLimit:
		fmt.Fprintf(a.out, "%s: %d of %d passes are taken\n", name, used, limit)
	}
	for i, h := range s.Holders {
		if s.Kind == distlock.KindRateLimit && i == maxPasses {
			fmt.Fprintf(a.out, "  and %d more\n", len(s.Holders)-i)
			break
		}
		a.printHolder(name, h)
	}
	for i, w := range s.Waiters {
		fmt.Fprintf(a.out, "%d in the queue: %s for %v\n", i+1, clean(w.Holder), short(w.Held))
	}
}

func (a *app) printHolder(name string, h distlock.Claim) {
	switch {
	case h.Kind == "rate":
		fmt.Fprintf(a.out, "  %d by %s %v ago, free again in %v\n", h.Weight, clean(h.Holder), short(h.Held), short(h.Left))
	case h.Kept:
		fmt.Fprintf(a.out, "%s was stored by %s, expires in %v\n", name, clean(h.Holder), short(h.Left))
	default:
		if h.Kind == "sem" {
			fmt.Fprintf(a.out, "  %d %s", h.Weight, heldBy(h))
		} else {
			fmt.Fprintf(a.out, "%s is %s, %s", name, heldBy(h), h.Mode)
		}
		if h.Left > 0 {
			fmt.Fprintf(a.out, ", expires in %v unless renewed", short(h.Left))
		}
		fmt.Fprintln(a.out)
	}
	if h.Note != "" {
		fmt.Fprintf(a.out, "  note: %s\n", clean(h.Note))
	}
	for _, k := range slices.Sorted(maps.Keys(h.Meta)) {
		fmt.Fprintf(a.out, "  %s=%s\n", clean(k), clean(h.Meta[k]))
	}
	if len(h.Value) > 0 {
		fmt.Fprintf(a.out, "  %s\n", valueText(h))
	}
}

// valueText returns the value that a holder has stored, for people. [distlock.Once] marks its
// values as a result or as the text of an error. The result of run --once is an exit code.
func valueText(h distlock.Claim) string {
	if h.Kind == "once" {
		switch text := string(h.Value[1:]); h.Value[0] {
		case '+':
			return "result: " + clean(text)
		case '-':
			return "failed: " + clean(text)
		}
	}
	return fmt.Sprintf("value: %q", h.Value)
}
