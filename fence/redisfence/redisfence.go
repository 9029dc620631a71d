// Package redisfence guards keys in Redis: it refuses a change that comes too late, by the fencing
// token of an exclusive lock. See package fence for the rule.
//
// A script compares the fence with the highest so far, remembers it, and changes the key, in one
// step and one round trip. Packages goredisfence and rueidisfence make a [Client] from theirs.
//
// The fence of a lock is remembered in the same slot of a cluster as the key: keys with one hash
// tag share it. So a lock that protects several keys gives them one tag, such as {invoice/42}:total
// and {invoice/42}:rows. Without a tag each key is guarded by itself: a change of one key does not
// make a late change of another one stale.
//
// Redis loses data that it has not saved. A register is as durable as appendfsync and the replicas
// are. For a register that must survive everything there is [fence.Table].
package redisfence

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is protected by it
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/distlock/distlock/fence"
)

//go:embed guard.lua
var script string

// A Client runs scripts. It sends a script once: it must not send it again because the answer did
// not come, since the command inside may not be idempotent. It may follow MOVED and ASK.
type Client interface {
	// Eval sends EVALSHA or EVAL to the node that has the keys. The answer is a string, an int64,
	// nil or a []any of these. An error of the server keeps its text.
	Eval(ctx context.Context, verb, script string, keys, args []string) (any, error)
}

// Options are the options of [New].
type Options struct {
	// Prefix is the prefix of the keys of registers. The default is "fence:".
	Prefix string

	// Keep is how long a fence is remembered after the last change under it; 0 means for ever. It
	// must be longer than any delay of a holder.
	Keep time.Duration
}

// A Guard changes keys under a lock.
type Guard struct {
	c      Client
	prefix string
	keep   string // in ms
	sha    string
}

// New returns a guard.
func New(c Client, opt *Options) (*Guard, error) {
	if c == nil {
		return nil, errors.New("redisfence: the client is nil")
	}
	o := Options{}
	if opt != nil {
		o = *opt
	}
	if o.Prefix == "" {
		o.Prefix = "fence:"
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		return nil, fmt.Errorf("%w: the prefix %.64q has braces, which name a slot", fence.ErrInvalid, o.Prefix)
	}
	if o.Keep < 0 || o.Keep > 0 && o.Keep < time.Millisecond {
		return nil, fmt.Errorf("%w: Keep is %v, want 0 or at least 1ms", fence.ErrInvalid, o.Keep)
	}
	sum := sha1.Sum([]byte(script)) //nolint:gosec // see above
	return &Guard{
		c: c, prefix: o.Prefix, keep: strconv.FormatInt(o.Keep.Milliseconds(), 10),
		sha: hex.EncodeToString(sum[:]),
	}, nil
}

// Set sets a key. If the lease's fence is stale the error is [fence.ErrStale], and nothing was
// changed.
func (g *Guard) Set(ctx context.Context, l fence.Lease, key, value string) error {
	_, err := g.Do(ctx, l, key, "SET", value)
	return err
}

// Del removes a key. If the lease's fence is stale the error is [fence.ErrStale], and nothing was
// changed.
func (g *Guard) Del(ctx context.Context, l fence.Lease, key string) error {
	_, err := g.Do(ctx, l, key, "DEL")
	return err
}

// Do runs a command whose first argument is its only key; args are the arguments after it. Do
// returns the command's answer. If the lease's fence is stale the error is [fence.ErrStale], and
// nothing was changed. Other errors of the server are returned as they are, and the key is
// unchanged. After all other errors the outcome is unknown.
//
// A key without a hash tag must not contain a closing brace: its register could not be in the same
// slot.
func (g *Guard) Do(ctx context.Context, l fence.Lease, key, command string, args ...string) (any, error) {
	tag, ok := hashTag(key)
	if !ok {
		return nil, fmt.Errorf("%w: the key %.64q is empty, or has a closing brace and no hash tag", fence.ErrInvalid, key)
	}
	return g.run(ctx, l, tag, []string{key}, append([]string{command}, args...))
}

// Advance makes the fence of the lease the highest of its lock. It makes a Guard a
// [fence.Register]: that of [Guard.Do] for a key that has the name of the lock as its tag.
func (g *Guard) Advance(ctx context.Context, l fence.Lease) error {
	_, err := g.run(ctx, l, "", nil, nil)
	return err
}

// run runs the script. Without a tag, the name of the lock is the tag.
func (g *Guard) run(ctx context.Context, l fence.Lease, tag string, keys, command []string) (any, error) {
	p, err := fence.Of(l)
	if err != nil {
		return nil, err
	}
	if tag == "" {
		tag = escape(p.Name())
	}
	keys = append([]string{g.prefix + "{" + tag + "}" + p.Name()}, keys...)
	args := append([]string{strconv.FormatUint(p.Fence(), 10), g.keep}, command...)
	answer, err := g.c.Eval(ctx, "EVALSHA", g.sha, keys, args)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		answer, err = g.c.Eval(ctx, "EVAL", script, keys, args)
	}
	if err != nil {
		return nil, fmt.Errorf("redisfence: %.64q: %w", p.Name(), err)
	}
	list, ok := answer.([]any)
	if !ok || len(list) == 0 {
		return nil, fmt.Errorf("redisfence: %.64q: the script answered %T", p.Name(), answer)
	}
	if list[0] == "stale" {
		stale := &fence.StaleError{Name: p.Name(), Fence: p.Fence()}
		if text, ok := list[len(list)-1].(string); ok {
			stale.Current, _ = fence.ParseFence(text) // 0 if the text is no fence: the verdict is certain
		}
		return nil, stale
	}
	if len(list) > 1 {
		return list[1], nil
	}
	return nil, nil
}

// hashTag returns the part of a key that Redis Cluster hashes. It reports whether that part can
// stand between braces.
func hashTag(key string) (string, bool) {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag, true
		}
	}
	return key, key != "" && !strings.Contains(key, "}")
}

// escape escapes the braces of a name.
func escape(name string) string {
	return strings.NewReplacer("{", "%7B", "}", "%7D", "%", "%25").Replace(name)
}
