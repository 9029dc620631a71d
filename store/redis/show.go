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

// showStep is how many claims one script returns. Such a script blocks the server for about 2 ms.
const showStep = 200

// Show returns the claims on a key and its queue. If there are more than showStep of them, Show
// reads them in pages, and the result is no snapshot.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || key == "" {
		return nil, err
	}
	var all []shown
	err := pages(func(at string, most int) (next string, err error) {
		f := newFrame()
		defer f.free()
		s.name(f, key)
		f.text(at)
		f.number(int64(most))
		text, err := s.run(ctx, f, &s.scripts.show)
		if err != nil {
			return "", definite(key, err)
		}
		next, text, ok := strings.Cut(text, "\n")
		if !ok {
			return "", errAnswer
		}
		page, err := claims(key, text)
		all = append(all, page...)
		return next, err
	})
	if err != nil {
		return nil, err
	}
	return inOrder(all), nil
}

// pages reads page after page. A page that begins where the page before it began was too small for
// the claims that end in the same ms.
func pages(read func(at string, most int) (next string, err error)) error {
	for at, most := "", showStep; ; {
		next, err := read(at, most)
		if err != nil || next == "" {
			return err
		}
		if next == at {
			most *= 2
		} else {
			at, most = next, showStep
		}
	}
}

// Break ends the claims on a key whose fence is at most upTo, or all of them if upTo is 0. If there
// are more than showStep of them, and an error occurs between two pages, the remaining claims stay.
func (s *Store) Break(
	ctx context.Context, key string, upTo uint64, reason string,
) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || key == "" {
		return nil, err
	}
	var all []shown
	high := int64(0) // the last fence when Break began
	err := pages(func(at string, most int) (next string, err error) {
		f := newFrame()
		defer f.free()
		s.name(f, key)
		f.text(reason)
		f.text(at)
		f.number(int64(most))
		f.number(high)
		f.number(int64(min(upTo, driver.MaxFence)))
		text, err := s.run(ctx, f, &s.scripts.breaks)
		if err != nil {
			return "", definite(key, err)
		}
		r := reader{rest: text}
		next, high = r.word(), r.number()
		page, err := claims(key, r.rest)
		all = append(all, page...)
		return next, cmp.Or(r.err, err)
	})
	if err != nil {
		return nil, err
	}
	return inOrder(all), nil
}

// shown is a claim or a queue entry, and its position in the order of grants.
type shown struct {
	driver.Claim
	order int64
}

// claims reads claims and queue entries.
func claims(key, text string) (all []shown, err error) {
	r := reader{rest: text}
	for r.rest != "" {
		c, order := r.claim(key)
		all = append(all, shown{c, order})
	}
	return all, r.err
}

// inOrder sorts claims by the order of their grants and removes duplicates. Queue entries come last
// and are already in order.
func inOrder(all []shown) (out []driver.Claim) {
	firstEntry := slices.IndexFunc(all, func(c shown) bool { return c.Waiting })
	if firstEntry < 0 {
		firstEntry = len(all)
	}
	slices.SortStableFunc(all[:firstEntry], func(a, b shown) int { return cmp.Compare(a.order, b.order) })
	for i, c := range all {
		if i+1 < firstEntry && c.order > 0 && c.order == all[i+1].order {
			continue // the later page is newer
		}
		out = append(out, c.Claim)
	}
	return out
}

// List yields the claims and queue entries of all keys with a prefix. It scans every key of every
// node, in small steps.
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
					return nil // another program wrote the key
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

// scan finds the keys with a prefix that have claims or queue entries on a node. A key without a
// claim may have a queue.
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

// glob escapes the characters that have a meaning in a pattern.
func glob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}
