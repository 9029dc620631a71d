package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (res driver.Result, err error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return driver.Result{}, err
	}
	err = s.write(ctx, call{limit: r.TTL / 4}, func(t *tx) error {
		k, err := t.load(r.Key)
		if err != nil {
			return err
		}
		before := k.last
		if res, err = s.acquire(k, r, t.now); err != nil {
			return err
		}
		res.Age = s.age(t)
		if !res.Granted && r.QueueTTL == 0 {
			return nil // only expired entries have changed
		}
		if err := t.sweep(&s.sweeps, k.last != before); err != nil {
			return err
		}
		return t.save(k)
	})
	if err != nil {
		return driver.Result{}, err
	}
	return res, nil
}

func (s *Store) acquire(k *key, r driver.Request, now time.Duration) (driver.Result, error) {
	clock := wall()
	if r.Floor > max(clock, k.last)+driver.MaxAhead {
		return driver.Result{}, fmt.Errorf("%w: floor %d is more than an hour ahead", driver.ErrInvalid, r.Floor)
	}
	if i := find(k.claims, r.Owner); i >= 0 {
		return k.again(k.claims[i], r, now), nil
	}
	at := find(k.queue, r.Owner)
	if !k.free(at, r.Weight, r.Limit) {
		return k.refuse(at, r, s.notifier.address(), now), nil
	}
	fence := max(k.last+driver.Span, clock, r.Floor)
	if fence > driver.MaxFence-driver.Span {
		return driver.Result{}, fmt.Errorf("%w: no fences are left", driver.ErrUnavailable)
	}
	k.last = fence
	if at >= 0 {
		k.queue = slices.Delete(k.queue, at, at+1)
	}
	c := newClaim(r, now, r.TTL)
	c.fence = fence
	k.claims = append(k.claims, c)
	k.broken = slices.DeleteFunc(k.broken, func(b broken) bool { return b.owner == r.Owner })
	k.wakeHead()
	return driver.Result{Granted: true, Fresh: true, Fence: fence, Used: k.used(), Behind: len(k.queue)}, nil
}

// Renew gives a claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	all := s.RenewAll(ctx, []driver.Renewal{r})
	return all[0].Behind, all[0].Err
}

// RenewAll renews many claims in one transaction.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	limit := busyLimit
	some := false
	for i, r := range rs {
		if out[i].Err = cmp.Or(ctx.Err(), r.Validate(features())); out[i].Err == nil {
			limit, some = min(limit, r.TTL/4), true
		}
	}
	if !some {
		return out
	}
	valid := slices.Clone(out)
	err := s.write(ctx, call{limit: limit, first: true}, func(t *tx) error {
		for i, r := range rs {
			if valid[i].Err != nil {
				continue
			}
			behind, err := renew(t, r)
			if err != nil && !isAnswer(err) {
				return err
			}
			out[i] = driver.Renewed{Behind: behind, Err: err}
		}
		return nil
	})
	for i := range out {
		if err != nil && valid[i].Err == nil {
			out[i] = driver.Renewed{Err: err}
		}
	}
	return out
}

func renew(t *tx, r driver.Renewal) (behind int, err error) {
	k, err := t.load(r.Key)
	if err != nil {
		return 0, err
	}
	i := find(k.claims, r.Owner)
	if i < 0 {
		for _, b := range k.broken {
			if b.owner == r.Owner {
				return 0, &driver.BrokenError{Reason: b.reason}
			}
		}
		return 0, driver.ErrNotHeld
	}
	c := k.claims[i]
	if c.kept() && !r.Keep {
		return len(k.queue), nil // a late renewal: a record keeps its own TTL
	}
	c.live(t.now, r.TTL)
	if r.Value != nil {
		c.value = r.Value
	}
	if r.Keep {
		c.keep()
		k.wakeObservers()
		for _, entry := range k.queue { // all waiters may read the record
			k.wake(entry)
		}
	}
	return len(k.queue), t.save(k)
}

// Release ends a claim or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if id.Key == "" || id.Owner == "" {
		return driver.ErrNotHeld // no owner can have it
	}
	return s.write(ctx, call{limit: busyLimit, first: true, alone: &id}, func(t *tx) error {
		k, err := t.load(id.Key)
		if err != nil {
			return err
		}
		i, at := find(k.claims, id.Owner), find(k.queue, id.Owner)
		switch {
		case i >= 0:
			k.claims = slices.Delete(k.claims, i, i+1)
			k.wakeObservers()
		case at >= 0:
			k.queue = slices.Delete(k.queue, at, at+1)
		default:
			return driver.ErrNotHeld
		}
		k.wakeHead()
		return t.save(k)
	})
}

// Break ends the claims on a key whose fence is at most upTo, or all of them if upTo is 0.
func (s *Store) Break(
	ctx context.Context, name string, upTo uint64, reason string,
) (out []driver.Claim, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, nil
	}
	err = s.write(ctx, call{limit: busyLimit, first: true}, func(t *tx) error {
		k, err := t.load(name)
		if err != nil || len(k.claims) == 0 {
			return err
		}
		var stay []*claim
		for _, c := range k.claims {
			if upTo > 0 && c.fence > upTo {
				stay = append(stay, c)
				continue
			}
			out = append(out, k.describe(c, t.now))
			k.broken = append(k.broken, broken{c.owner, reason, c.ends})
		}
		if len(out) == 0 {
			return nil
		}
		k.claims = stay
		k.wakeObservers()
		k.wakeHead()
		return t.save(k)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
