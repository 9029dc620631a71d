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

// claims reads claims, oldest first, and places.
func claims(key, text string) (cs []driver.Claim, err error) {
	r := reader{rest: text}
	for r.rest != "" {
		cs = append(cs, r.claim(key))
	}
	if r.err != nil {
		return nil, r.err
	}
	slices.SortStableFunc(cs, func(a, b driver.Claim) int {
		switch {
		case a.Waiting && b.Waiting:
			return 0 // the line is in order
		case a.Waiting != b.Waiting:
			return cmp.Compare(b2i(a.Waiting), b2i(b.Waiting))
		}
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Fence, b.Fence))
	})
	return cs, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
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
