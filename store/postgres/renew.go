package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/sqlrow"
)

// renewStep is the maximum number of claims that one statement renews.
const renewStep = 1000

// Renew gives a claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	owner, err := s.checkRenewal(ctx, &r)
	if err != nil {
		return 0, err
	}
	c := &call{st: &s.st.renew, key: sqlrow.Storable(r.Key)}
	c.args = [][]byte{[]byte(c.key), []byte(owner), appendInterval(nil, r.TTL), r.Value,
		[]byte("f")}
	if r.Keep {
		c.args[4] = []byte("t")
	}
	if err := s.renews.do(ctx, c); err != nil {
		return 0, err
	}
	if len(c.rows) != 1 {
		return 0, sqlrow.ErrAnswer
	}
	return renewed(c.rows[0])
}

func (s *Store) checkRenewal(ctx context.Context, r *driver.Renewal) (owner string, err error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return "", err
	}
	if owner, err = ownerOf(r.Owner); err != nil {
		return "", driver.ErrNotHeld // no owner can hold it
	}
	return owner, nil
}

// renewed reads an answer of renew or renew_all. The answer w, which only renew_all returns, is
// errBusy.
func renewed(cells [][]byte) (behind int, err error) {
	row := reader{sqlrow.Reader{Cells: cells}}
	answer, n, reason := row.Text(), row.Number(), row.plain()
	switch {
	case row.Err != nil:
		return 0, row.Err
	case answer == "+":
		return int(n), nil
	case answer == "n":
		return 0, driver.ErrNotHeld
	case answer == "b":
		return 0, &driver.BrokenError{Reason: reason}
	case answer == "w":
		return 0, errBusy
	}
	return 0, sqlrow.ErrAnswer
}

// RenewAll renews many claims, up to renewStep in one statement. Renewals with a value or Keep are
// rare and run one by one.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	owners := make([]string, len(rs))
	var plain, single []int
	for i := range rs {
		if owners[i], out[i].Err = s.checkRenewal(ctx, &rs[i]); out[i].Err != nil {
			continue
		}
		if rs[i].Value != nil || rs[i].Keep {
			single = append(single, i)
		} else {
			plain = append(plain, i)
		}
	}
	for len(plain) > 0 {
		n := min(len(plain), renewStep)
		single = append(single, s.renewTogether(ctx, rs, owners, plain[:n], out)...)
		plain = plain[n:]
	}
	for _, i := range single {
		out[i].Behind, out[i].Err = s.Renew(ctx, rs[i])
	}
	return out
}

// renewTogether renews the claims with these indexes in one statement. It returns the indexes of
// claims that another transaction has locked: they must be renewed alone.
func (s *Store) renewTogether(ctx context.Context, rs []driver.Renewal, owners []string,
	which []int, out []driver.Renewed) (busy []int) {
	c := &call{st: &s.st.renewAll}
	c.args = [][]byte{
		array(len(which), func(b []byte, n int) []byte {
			return appendText(b, sqlrow.Storable(rs[which[n]].Key))
		}),
		array(len(which), func(b []byte, n int) []byte { return appendText(b, owners[which[n]]) }),
		array(len(which), func(b []byte, n int) []byte {
			return append(appendInterval(append(b, '"'), rs[which[n]].TTL), '"')
		}),
	}
	err := s.renews.do(ctx, c)
	if err == nil && len(c.rows) != len(which) {
		err = sqlrow.ErrAnswer
	}
	for n, i := range which {
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Behind, out[i].Err = renewed(c.rows[n])
		if errors.Is(out[i].Err, errBusy) {
			busy = append(busy, i)
		}
	}
	return busy
}
