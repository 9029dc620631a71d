// Package access describes the clients of a lock server, and what they may do.
//
// An [Identity] is a client, such as "token:ci", "mtls:spiffe://..." or "local", with its
// permissions. A [Permission] allows verbs on names: on the names of a team, on one name, or on all
// names. It applies to names of every kind of lock. Everything else is denied.
package access

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Verb is something that a client does to a name. Verbs are a set.
type Verb uint8

// The verbs.
const (
	Acquire Verb = 1 << iota // acquire, renew and release; see the holder and the value of the name
	Observe                  // see holders and waiters, without values
	Break                    // end the claims of others

	All = Acquire | Observe | Break
)

var verbs = [...]struct {
	verb Verb
	word string
}{{Acquire, "acquire"}, {Observe, "observe"}, {Break, "break"}}

// String returns the words of the verbs, with commas.
func (v Verb) String() string {
	var words []string
	for _, w := range verbs {
		if v&w.verb != 0 {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ",")
}

// ParseVerbs is the reverse of [Verb.String].
func ParseVerbs(s string) (Verb, error) {
	var v Verb
next:
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		for _, w := range verbs {
			if w.word == word {
				v |= w.verb
				continue next
			}
		}
		return 0, fmt.Errorf("there is no verb %.32q: the verbs are acquire, observe and break", word)
	}
	return v, nil
}

// A Permission allows verbs on names.
type Permission struct {
	Names   string        // "team-a/": all names below it; "deploy": that name alone; "*": all names
	Verbs   Verb          // what is allowed
	MaxTTL  time.Duration // the longest TTL of a claim; 0: as the server allows
	MaxKeep time.Duration // the longest life of a result of Once or a pass of a rate limit; 0: as the server allows
}

// covers reports whether the permission is about a name.
func (p Permission) covers(name string) bool {
	switch {
	case p.Names == "*":
		return true
	case strings.HasSuffix(p.Names, "/"):
		return strings.HasPrefix(name, p.Names)
	}
	return name == p.Names
}

// An Identity is a client, and what it may do.
type Identity struct {
	Name        string // "token:ci"; names of two ways to prove an identity are never the same
	Permissions []Permission
}

// Everything returns an identity that may do everything.
func Everything(name string) *Identity {
	return &Identity{Name: name, Permissions: []Permission{{Names: "*", Verbs: All}}}
}

// May reports whether a verb is allowed on a name.
func (id *Identity) May(v Verb, name string) bool {
	_, ok := id.Find(v, name)
	return ok
}

// Find returns the permission that allows a verb on a name. If several do, it has the longest
// durations of them.
func (id *Identity) Find(v Verb, name string) (best Permission, ok bool) {
	for _, p := range id.Permissions {
		switch {
		case p.Verbs&v != v || !p.covers(name):
		case !ok:
			best, ok = p, true
		default:
			best.MaxTTL, best.MaxKeep = longer(best.MaxTTL, p.MaxTTL), longer(best.MaxKeep, p.MaxKeep)
		}
	}
	return best, ok
}

// longer returns the longer of two limits; 0 is none.
func longer(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// MayAll reports whether a verb is allowed on every name.
func (id *Identity) MayAll(v Verb) bool {
	return slices.ContainsFunc(id.Permissions, func(p Permission) bool { return p.Names == "*" && p.Verbs&v == v })
}

// MayAny reports whether a verb is allowed on some name.
func (id *Identity) MayAny(v Verb) bool {
	return slices.ContainsFunc(id.Permissions, func(p Permission) bool { return p.Verbs&v == v })
}

type contextKey struct{}

// WithIdentity returns a ctx with the identity of its caller.
func WithIdentity(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext returns the identity of the caller. Without one it is an identity that may do
// nothing.
func FromContext(ctx context.Context) *Identity {
	if id, ok := ctx.Value(contextKey{}).(*Identity); ok {
		return id
	}
	return &Identity{Name: "nobody"}
}
