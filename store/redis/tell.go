package redis

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/distlock/distlock/driver"
)

// Show returns the claims on a key and its line.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || key == "" {
		return nil, err
	}
	f := newFrame()
	defer f.free()
	f.name(s.prefix, key, hashPart, setPart)
	text, err := s.run(ctx, f, &s.scripts.show)
	if err != nil {
		return nil, definite(key, err)
	}
	return claims(key, text)
}

// Break ends the claims on a key.
func (s *Store) Break(ctx context.Context, key, reason string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || key == "" {
		return nil, err
	}
	f := newFrame()
	defer f.free()
	f.name(s.prefix, key, hashPart, setPart, brokenPart)
	f.text(reason)
	text, err := s.run(ctx, f, &s.scripts.breaks)
	if err != nil {
		return nil, definite(key, err)
	}
	return claims(key, text)
}

// claims reads claims, which it puts in the order of their grants, and places, which are in order.
func claims(key, text string) ([]driver.Claim, error) {
	type told struct {
		driver.Claim
		order int64
	}
	var all []told
	r := reader{rest: text}
	for r.rest != "" {
		c, order := r.claim(key)
		all = append(all, told{c, order})
	}
	if r.err != nil {
		return nil, r.err
	}
	places := slices.IndexFunc(all, func(t told) bool { return t.Waiting }) // they come last
	if places < 0 {
		places = len(all)
	}
	slices.SortFunc(all[:places], func(a, b told) int { return cmp.Compare(a.order, b.order) })
	var out []driver.Claim
	for _, t := range all {
		out = append(out, t.Claim)
	}
	return out, nil
}

// List yields the claims and lines of all keys with a prefix. It looks at every key of every node, in small steps.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		seen := map[string]bool{}
		err := s.client.Each(ctx, func(n Node) error {
			return s.scan(ctx, n, prefix, func(key string) error {
				if seen[key] {
					return nil
				}
				seen[key] = true
				cs, err := s.Show(ctx, key)
				if errors.Is(err, driver.ErrInvalid) {
					return nil // it is not ours
				}
				for _, c := range cs {
					if !yield(c, nil) {
						return errStop
					}
				}
				return err
			})
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(driver.Claim{}, definite(prefix, err))
		}
	}
}

var errStop = errors.New("redis: the caller has seen enough")

// scan finds the keys with a prefix of which a node has something. A line may stand on a key that is free.
func (s *Store) scan(ctx context.Context, n Node, prefix string, found func(key string) error) error {
	name := string(appendName(nil, s.prefix, prefix))
	for _, pattern := range []string{glob(name) + "*", "{" + glob(name) + "*" + setPart} {
		for cursor := "0"; ; {
			reply, err := n.Do(ctx, "SCAN", cursor, "MATCH", pattern, "COUNT", "1000")
			if err != nil {
				return err
			}
			parts, _ := reply.([]any)
			if len(parts) != 2 {
				return errAnswer
			}
			cursor, _ = parts[0].(string)
			names, _ := parts[1].([]any)
			for _, one := range names {
				name, _ := one.(string)
				name = strings.TrimSuffix(strings.TrimPrefix(name, "{"), setPart)
				key, ok := keyOf(strings.TrimPrefix(name, s.prefix))
				if !ok || key == "" {
					continue
				}
				if err := found(key); err != nil {
					return err
				}
			}
			if cursor == "0" || cursor == "" {
				break
			}
		}
	}
	return nil
}

// glob escapes what has a meaning in a pattern.
func glob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}
