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
	if err != nil && text == "" {
		return driver.Result{}, definite(r.Key, s.elsewhere(err))
	}
	res, bad := result(r.Key, r.Floor, text)
	if bad != nil || !res.Granted || err == nil && have >= s.opt.Replicas {
		return res, bad
	}
	few := fmt.Errorf("redis: %d of %d replicas have the claim", have, s.opt.Replicas)
	if err != nil {
		few = untold("redis: WAIT did not tell how many replicas have the claim", err)
	}
	if _, text := aged(text); text[0] == '=' {
		return driver.Result{}, few // the owner has had the claim before, and it was prolonged
	}
	if err := s.Release(ctx, r.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		return driver.Result{}, untold(few.Error()+", and it could not be given back", err)
	}
	return driver.Result{}, fmt.Errorf("%w: %w", driver.ErrUnavailable, few)
}

// untold is an error that leaves the outcome open, also if the reason says that nothing was changed: that is said of the last step alone,
// and the claim is there.
func untold(what string, reason error) error {
	if errors.Is(reason, driver.ErrUnavailable) {
		return errors.New(what + ": " + reason.Error())
	}
	return fmt.Errorf("%s: %w", what, reason)
}
