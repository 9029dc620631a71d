package postgres

import (
	"context"
	"encoding/hex"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// Show returns the claims on a key and its queue.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || key == "" {
		return nil, err
	}
	rows, err := s.query(ctx, &s.st.show, []byte(sqlrow.Storable(key)))
	if err != nil {
		return nil, err
	}
	return claims(rows)
}

// Break ends the claims on a key whose fence is at most upTo, or all of them if upTo is 0.
func (s *Store) Break(
	ctx context.Context, key string, upTo uint64, reason string,
) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || key == "" {
		return nil, err
	}
	bound := number(int64(min(upTo, driver.MaxFence)))
	rows, err := s.query(ctx, &s.st.breaks, []byte(sqlrow.Storable(key)), []byte(sqlrow.Storable(reason)), bound)
	if err != nil {
		return nil, err
	}
	return claims(rows)
}

func claims(rows [][][]byte) ([]driver.Claim, error) {
	var out []driver.Claim
	for _, cells := range rows {
		r := reader{sqlrow.Reader{Cells: cells}}
		out = append(out, r.claim())
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return out, nil
}

// List yields the claims and queues of all keys with a prefix, 100 keys at a time. The order of the
// keys is not specified.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		// A key with the prefix is stored as it is or as hex: see [sqlrow.Storable]. A prefix
		// that ends within a UTF-8 sequence is not a valid text, so the query has the text before
		// it.
		whole := prefix
		for whole != "" && !utf8.ValidString(whole) {
			whole = whole[:len(whole)-1]
		}
		whole, _, _ = strings.Cut(whole, "\x00")
		for _, stored := range []string{whole, sqlrow.Escape + hex.EncodeToString([]byte(prefix))} {
			if !s.listStored(ctx, stored, prefix, stored != whole, yield) {
				return
			}
		}
	}
}

// listStored lists the keys whose stored form begins with a text. hexed selects one of the two
// forms.
func (s *Store) listStored(ctx context.Context, stored, prefix string, hexed bool,
	yield func(driver.Claim, error) bool) (more bool) {
	after := ""
	for {
		rows, err := s.query(ctx, &s.st.list, []byte(stored), []byte(after))
		var all []driver.Claim
		if err == nil {
			all, err = claims(rows)
		}
		if err != nil {
			yield(driver.Claim{}, err)
			return false
		}
		if len(rows) == 0 {
			return true
		}
		for i, c := range all {
			if strings.HasPrefix(string(rows[i][0]), sqlrow.Escape) != hexed ||
				!strings.HasPrefix(c.Key, prefix) {
				continue
			}
			if !yield(c, nil) {
				return false
			}
		}
		after = string(rows[len(rows)-1][0])
	}
}
