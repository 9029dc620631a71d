package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock/driver"
)

// replicated asks for a claim that counts only if enough replicas have it.
func (s *Store) replicated(ctx context.Context, f *frame, r driver.Request) (driver.Result, error) {
	c := f.call(&s.scripts.acquire)
	text, have, err := s.client.RunWait(ctx, c, s.opt.Replicas, s.opt.ReplicaTimeout)
	if unknownScript(err) {
		c.Verb, c.Script = "EVAL", s.scripts.acquire.text
		text, have, err = s.client.RunWait(ctx, c, s.opt.Replicas, s.opt.ReplicaTimeout)
	}
	if err != nil {
		return driver.Result{}, definite(r.Key, err)
	}
	res, err := result(r.Key, r.Floor, text)
	if err != nil || !res.Granted || have >= s.opt.Replicas {
		return res, err
	}
	few := fmt.Errorf("redis: %d of %d replicas have the claim", have, s.opt.Replicas)
	if _, text := aged(text); text[0] == '=' {
		return driver.Result{}, few // the owner has had the claim before, and it was prolonged
	}
	if err := s.Release(ctx, r.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		return driver.Result{}, errors.Join(few, err)
	}
	return driver.Result{}, fmt.Errorf("%w: %w", driver.ErrUnavailable, few)
}
