package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

// kindLock is the kind of a lock on the command line. In [distlock.Claim] it is empty.
const kindLock = "lock"

// kinds are the values of --kind.
var kinds = []string{kindLock, "sem", "rate", "once", "lead"}

// kindName returns the value of --kind for a kind of a [distlock.Claim].
func kindName(kind string) string {
	if kind == "" {
		return kindLock
	}
	return kind
}

// noun returns the name of a kind for people.
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

// title returns a name with the kind before it, unless it is a lock.
func title(kind, name string) string {
	if kindName(kind) == kindLock {
		return clean(name)
	}
	return noun(kind) + " " + clean(name)
}

// storeKey returns the key of a name in a store.
func storeKey(kind, name string) (string, error) {
	if kind == kindLock {
		kind = ""
	}
	k, ok := names.Parse(kind)
	if !ok {
		return "", usage("there is no kind %s", kind)
	}
	key := k.Key(name)
	if name == "" || len(key) > driver.MaxKey {
		return "", usage("NAME has %d bytes", len(name))
	}
	return key, nil
}

// A target is the subject of break and wait: a name and a kind.
type target struct {
	name  string
	kind  string
	given bool // --kind was given
}

func (t *target) flag(c *cobra.Command) {
	c.Flags().StringVar(&t.kind, "kind", kindLock, "the `KIND` that the name belongs to: "+strings.Join(kinds, "|"))
	complete := cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp)
	_ = c.RegisterFlagCompletionFunc("kind", complete) // it fails only for an unknown flag
}

// check validates --kind and returns the key of the target in the store.
func (t *target) check(c *cobra.Command, name string) (key string, err error) {
	if !slices.Contains(kinds, t.kind) {
		return "", usage("--kind is %.64q, want one of %s", t.kind, strings.Join(kinds, ", "))
	}
	t.name, t.given = name, c.Flags().Changed("kind")
	return storeKey(t.kind, name)
}

// why returns the holders and the waiters. It takes one round trip for a lock, and one for each
// kind otherwise.
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

// others returns the other kinds of the name for which match is true, each with its --kind: a user
// who gave no --kind may have meant one of them. It is empty if there are none, if --kind was
// given, or if the store does not answer.
func (t *target) others(ctx context.Context, l *distlock.Locker, match func(distlock.Reason) bool) string {
	if t.given {
		return ""
	}
	all, _ := l.WhyAll(ctx, t.name) // the result is only a hint
	var found []string
	for _, r := range all {
		if kindName(r.Kind) != t.kind && match(r) {
			found = append(found, noun(r.Kind)+" (--kind "+r.Kind+")")
		}
	}
	return strings.Join(found, ", ")
}

// held reports whether there is a holder.
func held(why distlock.Reason) bool { return len(why.Holders) > 0 }

// full reports whether an attempt would be refused now: there are waiters, or there are holders and
// no slot or pass is left.
func full(why distlock.Reason) bool {
	used, limit := taken(why)
	counted := why.Kind == "sem" || why.Kind == "rate"
	return len(why.Waiters) > 0 || held(why) && (!counted || used >= limit)
}

// taken returns how much of the limit is held, and the limit.
func taken(why distlock.Reason) (used, limit int64) {
	for _, h := range why.Holders {
		used, limit = used+h.Weight, max(limit, h.Limit)
	}
	return used, limit
}
