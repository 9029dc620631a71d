package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/distlock/distlock/driver"
)

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (res driver.Result, err error) {
	if err := cmp.Or(ctx.Err(), r.Validate(features())); err != nil {
		return driver.Result{}, err
	}
	err = s.write(ctx, call{limit: r.TTL / 4, joins: true}, func(t *tx) error {
		k, err := t.load(r.Key)
		if err != nil {
			return err
		}
		before := k.last
		if res, err = k.acquire(r, s.notifier.address()); err != nil {
			return err
		}
		res.Age = s.age(t)
		if !res.Granted && r.QueueTTL == 0 {
			return nil // only expired claims have changed
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
	c, err := k.find(r.Owner)
	if err != nil {
		return 0, err
	}
	behind = int(k.rows.queue)
	if c == nil || c.waiting() {
		for _, b := range k.broken {
			if b.owner == r.Owner {
				return 0, &driver.BrokenError{Reason: b.reason}
			}
		}
		return 0, driver.ErrNotHeld
	}
	if c.kept() && !r.Keep {
		return behind, nil // a late renewal: a record keeps its own TTL
	}
	c.live(t.now, r.TTL)
	if r.Value != nil {
		c.value = r.Value
	}
	if r.Keep {
		c.keep()
		k.wakeObservers()
		queue, err := k.list(true)
		if err != nil {
			return 0, err
		}
		for _, entry := range queue { // all waiters may read the record
			k.wake(entry)
		}
	}
	if err := k.put(c); err != nil {
		return 0, err
	}
	return behind, t.save(k)
}

// Release ends a claim or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if id.Key == "" || id.Owner == "" {
		return driver.ErrNotHeld // no owner can have it
	}
	return s.write(ctx, call{limit: busyLimit, first: true, joins: true, alone: &id}, func(t *tx) error {
		k, err := t.load(id.Key)
		if err != nil {
			return err
		}
		c, err := k.find(id.Owner)
		switch {
		case err != nil:
			return err
		case c == nil:
			return driver.ErrNotHeld
		case !c.waiting():
			k.wakeObservers()
		}
		return cmp.Or(k.remove(c), k.handOver(s.notifier.watched), t.save(k))
	})
}

// reasonLimit is how long a key keeps the reason of a broken claim at most.
const reasonLimit = time.Hour

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
		if err != nil {
			return err
		}
		claims, err := k.list(false)
		if err != nil {
			return err
		}
		for _, c := range claims {
			if upTo > 0 && c.fence > upTo {
				continue
			}
			if err := k.remove(c); err != nil {
				return err
			}
			out = append(out, k.describe(c, t.now))
			if !c.kept() { // nobody renews a record
				k.broken = append(k.broken, broken{c.owner, reason, min(c.ends, after(t.now, reasonLimit))})
			}
		}
		if len(out) == 0 {
			return nil
		}
		k.wakeObservers()
		return cmp.Or(k.handOver(s.notifier.watched), t.save(k))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
