package mysql

import (
	"bytes"
	"context"
	"iter"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// listStep is the number of keys of one query of List.
const listStep = 100

// showSQL selects the live claims and the queue entries of the keys from the first to the second
// literal, in the order of Show.
var showSQL = strings.ReplaceAll("SELECT lock_key, 0 AS waiting, owner, weight, `limit`, fence, @now - since, ends - @now, kept,"+
	" holder, task, meta, value, granted AS place FROM distlock_claim"+
	" WHERE lock_key >= @from AND lock_key <= @to AND broken IS NULL AND ends > @now"+
	" UNION ALL SELECT lock_key, 1, owner, weight, `limit`, 0, @now - since, ends - @now, 0,"+
	" holder, task, meta, value, number FROM distlock_queue"+
	" WHERE lock_key >= @from AND lock_key <= @to AND ends > @now ORDER BY lock_key, waiting, place",
	"@now", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")

// Show returns the claims on a key and its queue.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || !validKey(key) {
		return nil, err
	}
	return s.between(ctx, hexOf(key), hexOf(key))
}

func (s *Store) between(ctx context.Context, from, to string) ([]driver.Claim, error) {
	text := strings.NewReplacer("@from", from, "@to", to).Replace(showSQL)
	rows, err := s.query(ctx, s.claims, text)
	if err != nil {
		return nil, err
	}
	return claims(rows)
}

func claims(rows [][][]byte) ([]driver.Claim, error) {
	var out []driver.Claim
	for _, cells := range rows {
		r := reader{sqlrow.Reader{Cells: cells}}
		out = append(out, r.claim(r.Text()))
		if r.Err != nil {
			return nil, r.Err
		}
	}
	return out, nil
}

// Break ends the claims on a key whose fence is at most upTo, or all of them if upTo is 0.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	if err := ctx.Err(); err != nil || !validKey(key) {
		return nil, err
	}
	rows, err := s.query(ctx, s.claims, "CALL distlock_break"+list(hexOf(key),
		number(int64(min(upTo, driver.MaxFence))), hexOf(reason)))
	if err != nil {
		return nil, err
	}
	s.poller.soon(key)
	return claims(rows)
}

// List yields the claims and queues of all keys with a prefix, in the order of the keys, 100 keys
// at a time.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		if len(prefix) > driver.MaxKey {
			return
		}
		from, more := []byte(prefix), true
		for more {
			var all []driver.Claim
			var last []byte
			var err error
			if last, more, err = s.page(ctx, prefix, from); err == nil && last != nil {
				all, err = s.between(ctx, hexOf(from), hexOf(last))
			}
			if err != nil {
				yield(driver.Claim{}, err)
				return
			}
			for _, c := range all {
				if !yield(c, nil) {
					return
				}
			}
			from = append(last, 0)
		}
	}
}

// page returns the last of the next keys, or nil if there is none, and whether more may follow.
func (s *Store) page(ctx context.Context, prefix string, from []byte) (last []byte, more bool, err error) {
	to := append([]byte(prefix), bytes.Repeat([]byte{0xff}, driver.MaxKey-len(prefix))...)
	rows, err := s.query(ctx, s.claims, "SELECT MAX(lock_key), COUNT(*) FROM (SELECT lock_key FROM distlock_claim"+
		" WHERE lock_key >= "+hexOf(from)+" AND lock_key <= "+hexOf(to)+" AND slot = ''"+
		" ORDER BY lock_key LIMIT "+number(listStep)+") k")
	if err != nil {
		return nil, false, err
	}
	if len(rows) != 1 {
		return nil, false, sqlrow.ErrAnswer
	}
	row := reader{sqlrow.Reader{Cells: rows[0]}}
	last = row.Next()
	return last, row.Number() == listStep, row.Err
}
