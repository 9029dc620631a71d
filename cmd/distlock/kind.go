package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// kindLock is the word for a lock, which Claim.Kind has none for.
const kindLock = "lock"

// kinds are the words for what may go by a name.
var kinds = []string{kindLock, "sem", "rate", "once", "lead"}

// kindWord is the word for a Claim.Kind.
func kindWord(kind string) string {
	if kind == "" {
		return kindLock
	}
	return kind
}

// noun is what people call a kind.
func noun(kind string) string {
	switch kind {
	case "sem":
		return "semaphore"
	case "rate":
		return "rate limit"
	case "once":
		return "result"
	case "lead":
		return "election"
	}
	return kindLock
}

// title is a name with what it is the name of, unless that is a lock.
func title(kind, name string) string {
	if kindWord(kind) == kindLock {
		return clean(name)
	}
	return noun(kind) + " " + clean(name)
}

// storeKey is the key of a name in a store. That of a lock is the name itself; one that begins with a tilde has it doubled.
func storeKey(kind, name string) (string, error) {
	key := name
	switch {
	case kindWord(kind) != kindLock:
		key = "~" + kind + "/" + name
	case strings.HasPrefix(name, "~"):
		key = "~" + name
	}
	if name == "" || len(key) > driver.MaxKey {
		return "", usage("NAME has %d bytes", len(name))
	}
	return key, nil
}

// A target is what break and wait are about: the lock of a name, or another thing that goes by it.
type target struct {
	name  string
	kind  string
	given bool // the kind was asked for
}

func (t *target) flag(c *cobra.Command) {
	c.Flags().StringVar(&t.kind, "kind", kindLock, "which `KIND` of thing by that name: "+strings.Join(kinds, "|"))
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp)) // it is there
}

// check returns the key in the store.
func (t *target) check(c *cobra.Command, name string) (key string, err error) {
	if !slices.Contains(kinds, t.kind) {
		return "", usage("--kind is %.64q, want one of %s", t.kind, strings.Join(kinds, ", "))
	}
	t.name, t.given = name, c.Flags().Changed("kind")
	return storeKey(t.kind, name)
}

// why tells who holds it and who waits. That is a round trip for a lock, and one for each kind otherwise.
func (t *target) why(ctx context.Context, l *distlock.Locker) (distlock.Reason, error) {
	if t.kind == kindLock {
		return l.Why(ctx, t.name)
	}
	all, err := l.WhyAll(ctx, t.name)
	for _, r := range all {
		if r.Kind == t.kind {
			return r, nil
		}
	}
	return distlock.Reason{Name: t.name, Kind: t.kind}, err
}

// others names the other things of the name that are so, and how to ask for them: whoever has not said what is meant may have meant one of them. It is
// empty if there are none, or if the store does not tell.
func (t *target) others(ctx context.Context, l *distlock.Locker, are func(distlock.Reason) bool) string {
	if t.given {
		return ""
	}
	all, _ := l.WhyAll(ctx, t.name) // it is a hint
	var words []string
	for _, r := range all {
		if kindWord(r.Kind) != t.kind && are(r) {
			words = append(words, noun(r.Kind)+" (--kind "+r.Kind+")")
		}
	}
	return strings.Join(words, ", ")
}

// held reports whether anybody has it.
func held(why distlock.Reason) bool { return len(why.Holders) > 0 }

// full reports whether one that asked now would not be granted it: somebody has it, or waits, and there is no slot and no pass left.
func full(why distlock.Reason) bool {
	used, limit := taken(why)
	counted := why.Kind == "sem" || why.Kind == "rate"
	return len(why.Line) > 0 || held(why) && (!counted || used >= limit)
}

// taken is how much of its limit is held.
func taken(why distlock.Reason) (used, limit int64) {
	for _, h := range why.Holders {
		used, limit = used+h.Weight, max(limit, h.Limit)
	}
	return used, limit
}
