package mysql

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// renewStep is the maximum number of claims that one statement renews. Its text is shorter than the
// smallest usual max_allowed_packet.
const renewStep = 1000

// Renew gives a claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return 0, err
	}
	set, keep := 0, 0
	if r.Value != nil {
		set = 1
	}
	if r.Keep {
		keep = 1
	}
	rows, err := s.query(ctx, s.renews, "CALL distlock_renew"+list(hexOf(r.Key), hexOf(digest(r.Owner)),
		number(micros(r.TTL)), number(set), hexOrNull(r.Value), number(keep)))
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, sqlrow.ErrAnswer
	}
	behind, err = renewed(&reader{sqlrow.Reader{Cells: rows[0]}})
	if err == nil && behind > 0 {
		s.slow.set(r.Key, true)
	}
	if err == nil && r.Keep {
		s.poller.soon(r.Key)
	}
	return behind, err
}

// renewed reads an answer of distlock_renew or distlock_renew_all.
func renewed(row *reader) (behind int, err error) {
	answer, n, reason := row.Text(), row.Number(), row.Text()
	switch {
	case row.Err != nil:
		return 0, row.Err
	case answer == "+":
		return int(n), nil
	case answer == "n":
		return 0, driver.ErrNotHeld
	case answer == "b":
		return 0, &driver.BrokenError{Reason: reason}
	}
	return 0, sqlrow.ErrAnswer
}

// RenewAll renews many claims, up to renewStep in one statement. Renewals with a value or Keep are
// rare and run one by one. So do those of a statement that another transaction delayed for too long
// or that ended in a deadlock: one locked key must not end all claims.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	var together, single []int
	for i := range rs {
		if out[i].Err = cmp.Or(ctx.Err(), rs[i].Validate(features())); out[i].Err != nil {
			continue
		}
		if rs[i].Value != nil || rs[i].Keep {
			single = append(single, i)
		} else {
			together = append(together, i)
		}
	}
	for which := range slices.Chunk(together, renewStep) {
		err := s.renewTogether(ctx, rs, which, out)
		if n := code(err); n == lockWait || n == deadlock {
			single = append(single, which...)
			continue
		}
		for _, i := range which {
			if err != nil {
				out[i] = driver.Renewed{Err: err}
			}
		}
	}
	if len(single) > 0 {
		alone := make([]driver.Renewal, len(single))
		for n, i := range single {
			alone[n] = rs[i]
		}
		// Without the verb, RenewAll calls Renew for each, some at a time.
		for n, r := range driver.RenewAll(ctx, oneByOne{s}, alone) {
			out[single[n]] = r
		}
	}
	return out
}

// oneByOne hides the verb RenewAll.
type oneByOne struct{ driver.Store }

// renewTogether renews the claims with these indexes in one statement, in the order of their keys.
func (s *Store) renewTogether(ctx context.Context, rs []driver.Renewal, which []int, out []driver.Renewed) error {
	type item struct {
		index      int
		key, owner []byte
	}
	items := make([]item, len(which))
	for n, i := range which {
		items[n] = item{i, []byte(rs[i].Key), digest(rs[i].Owner)}
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(bytes.Compare(a.key, b.key), bytes.Compare(a.owner, b.owner))
	})
	text := []byte("CALL distlock_renew_all('[")
	for n, it := range items {
		if n > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(append(text, '['), int64(it.index), 10)
		text = append(hex.AppendEncode(append(text, `,"`...), it.key), `","`...)
		text = append(hex.AppendEncode(text, it.owner), `",`...)
		text = append(strconv.AppendInt(text, micros(rs[it.index].TTL), 10), ']')
	}
	rows, err := s.query(ctx, s.renews, string(append(text, "]')"...)))
	if err == nil && len(rows) != len(items) {
		err = sqlrow.ErrAnswer
	}
	if err != nil {
		return err
	}
	for _, cells := range rows {
		row := reader{sqlrow.Reader{Cells: cells}}
		i := int(row.Number())
		if row.Err != nil || i < 0 || i >= len(out) {
			return sqlrow.ErrAnswer
		}
		out[i].Behind, out[i].Err = renewed(&row)
	}
	return nil
}
