package pgurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A URL names a server for a store.
type URL struct {
	Text string   // for pgx: without the keys of the store
	Keys []string // of the whole query

	security
}

// Parse reads a URL. It calls set with each key that begins with lock_. Errors never contain the
// password.
func Parse(text string, set func(key, value string) error) (*URL, error) {
	base, query, _ := strings.Cut(text, "?")
	if !strings.HasPrefix(base, "postgres://") && !strings.HasPrefix(base, "postgresql://") {
		return nil, errors.New("it begins with postgres:// or postgresql://")
	}
	u := &URL{Text: base}
	var kept []string
	for param := range strings.SplitSeq(query, "&") {
		key, raw, _ := strings.Cut(param, "=")
		if param == "" {
			continue
		}
		if slices.Contains(u.Keys, key) {
			return nil, fmt.Errorf("%.64q is in it twice", key)
		}
		u.Keys = append(u.Keys, key)
		value, err := url.QueryUnescape(raw)
		known := strings.HasPrefix(key, "lock_")
		switch {
		case err != nil:
			err = fmt.Errorf("%.64q is not well written", key)
		case known:
			err = set(key, value)
		default:
			known, err = u.set(key, value)
		}
		if err != nil {
			return nil, err
		}
		if !known {
			kept = append(kept, param)
		}
	}
	kept, err := u.params(Writable(base, kept), u.Keys)
	if len(kept) > 0 {
		u.Text += "?" + strings.Join(kept, "&")
	}
	return u, err
}
