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

// kinds are the values of --kind.
var kinds = []string{
	string(distlock.KindLock), string(distlock.KindSemaphore), string(distlock.KindRateLimit),
	string(distlock.KindOnce), string(distlock.KindElection),
}

// title returns a name with the kind before it, unless it is a lock.
func title(kind distlock.Kind, name string) string {
	if kind == distlock.KindLock {
		return clean(name)
	}
	return kind.Noun() + " " + clean(name)
}

// storeKey returns the key of a name in a store.
func storeKey(kind distlock.Kind, name string) (string, error) {
	k, _ := names.Parse(string(kind))
	key := k.Key(name)
	if name == "" || len(key) > driver.MaxKey {
		return "", usage("NAME has %d bytes", len(name))
	}
	return key, nil
}

// A target is the subject of break and wait: a name and a kind.
type target struct {
	name  string
	kind  distlock.Kind
	given bool // --kind was given
}

func (t *target) flag(c *cobra.Command) {
	c.Flags().StringVar((*string)(&t.kind), "kind", string(distlock.KindLock), "the `KIND` that the name belongs to: "+strings.Join(kinds, "|"))
	complete := cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp)
	_ = c.RegisterFlagCompletionFunc("kind", complete) // it fails only for an unknown flag
}

// check validates --kind, and returns the key of the target in the store.
func (t *target) check(c *cobra.Command, name string) (key string, err error) {
	if !slices.Contains(kinds, string(t.kind)) {
		return "", usage("--kind is %.64q, want one of %s", t.kind, strings.Join(kinds, ", "))
	}
	t.name, t.given = name, c.Flags().Changed("kind")
	return storeKey(t.kind, name)
}

// others returns the other kinds of the name for which match is true, each with its --kind: a user
// who gave no --kind may have meant one of them. It is empty if there are none, if --kind was
// given, or if the store does not answer.
func (t *target) others(ctx context.Context, l *distlock.Locker, match func(distlock.Status) bool) string {
	if t.given {
		return ""
	}
	all, _ := l.Status(ctx, distlock.KindAny, t.name) // the result is only a hint
	var found []string
	for _, s := range all.ByKind() {
		if s.Kind != t.kind && match(s) {
			found = append(found, s.Kind.Noun()+" (--kind "+string(s.Kind)+")")
		}
	}
	return strings.Join(found, ", ")
}

// held reports whether there is a holder.
func held(s distlock.Status) bool { return len(s.Holders) > 0 }

// full reports whether an attempt would be refused now: there are waiters, or there are holders and
// no slot or pass is left.
func full(s distlock.Status) bool {
	used, limit := taken(s)
	counted := s.Kind == distlock.KindSemaphore || s.Kind == distlock.KindRateLimit
	return len(s.Waiters) > 0 || held(s) && (!counted || used >= limit)
}

// taken returns how much of the limit is held, and the limit.
func taken(s distlock.Status) (used, limit int64) {
	for _, h := range s.Holders {
		used, limit = used+h.Weight, max(limit, h.Limit)
	}
	return used, limit
}
