package redis

import (
	"cmp"
	"context"

	"github.com/distlock/distlock/driver"
)

// Renew gives a claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	if err := s.checkRenewal(ctx, &r); err != nil {
		return 0, err
	}
	f := newFrame()
	defer f.free()
	s.name(f, r.Key)
	f.renewalArgs(&r)
	text, err := s.run(ctx, f, &s.scripts.renew)
	if err != nil {
		return 0, definite(r.Key, err)
	}
	answer := reader{rest: text}
	return answer.renewed(r.Key)
}

func (s *Store) checkRenewal(ctx context.Context, r *driver.Renewal) error {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return err
	}
	if reserved(r.Owner) {
		return driver.ErrNotHeld
	}
	return nil
}

func (f *frame) renewalArgs(r *driver.Renewal) {
	f.text(r.Owner)
	f.life(r.TTL)
	mode := int64(0)
	if r.Value != nil {
		mode = 1
	}
	if r.Keep {
		mode += 2
	}
	f.number(mode)
	f.value(r.Value)
}

// RenewAll renews many claims: up to renewStep in one script. On a cluster a script has the keys of
// one name only, and RenewAll sends all scripts of a node in one round trip.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	var valid []int // indexes of the valid renewals
	for i := range rs {
		if out[i].Err = s.checkRenewal(ctx, &rs[i]); out[i].Err == nil {
			valid = append(valid, i)
		}
	}
	if s.client.Cluster() {
		s.renewEach(ctx, rs, valid, out)
		return out
	}
	for len(valid) > 0 {
		n := min(len(valid), renewStep)
		s.renewTogether(ctx, rs, valid[:n], out)
		valid = valid[n:]
	}
	return out
}

// renewTogether renews the claims with these indexes in one script.
func (s *Store) renewTogether(ctx context.Context, rs []driver.Renewal, which []int, out []driver.Renewed) {
	f := newFrame()
	defer f.free()
	for _, i := range which {
		s.name(f, rs[i].Key)
	}
	for _, i := range which {
		f.renewalArgs(&rs[i])
	}
	text, err := s.run(ctx, f, &s.scripts.renew)
	answers := reader{rest: text}
	for _, i := range which {
		if err != nil {
			out[i].Err = definite(rs[i].Key, err)
			continue
		}
		out[i].Behind, out[i].Err = answers.renewed(rs[i].Key)
	}
}

// renewEach renews the claims with these indexes in one script each.
func (s *Store) renewEach(ctx context.Context, rs []driver.Renewal, which []int, out []driver.Renewed) {
	calls := make([]Call, len(which))
	for n, i := range which {
		f := newFrame()
		defer f.free()
		s.name(f, rs[i].Key)
		f.renewalArgs(&rs[i])
		calls[n] = f.call(&s.scripts.renew)
		calls[n].Renewal = true
	}
	answers := s.client.RunAll(ctx, calls)
	var again []int // calls to nodes that do not know the script
	for n := range which {
		if unknownScript(answers[n].Err) {
			again = append(again, n)
		}
	}
	if len(again) > 0 {
		whole := make([]Call, len(again))
		for at, n := range again {
			whole[at] = calls[n]
			whole[at].Verb, whole[at].Script = "EVAL", s.scripts.renew.text
		}
		for at, a := range s.client.RunAll(ctx, whole) {
			answers[again[at]] = a
		}
	}
	for n, i := range which {
		if answers[n].Err != nil {
			out[i].Err = definite(rs[i].Key, answers[n].Err)
			continue
		}
		r := reader{rest: answers[n].Text}
		out[i].Behind, out[i].Err = r.renewed(rs[i].Key)
	}
}
