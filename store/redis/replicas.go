package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/distlock/distlock/driver"
)

// replicated acquires a claim that counts only if enough replicas have it.
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
		few = unknownOutcome("redis: WAIT did not report how many replicas have the claim", err)
	}
	if _, text := cutAge(text); text[0] == '=' {
		return driver.Result{}, few // the owner already had the claim: this call only renewed it
	}
	if err := s.Release(ctx, r.ID); err != nil && !errors.Is(err, driver.ErrNotHeld) {
		return driver.Result{}, unknownOutcome(few.Error()+", and it could not be released", err)
	}
	return driver.Result{}, fmt.Errorf("%w: %w", driver.ErrUnavailable, few)
}

// unknownOutcome returns an error that is not driver.ErrUnavailable. A reason that is
// ErrUnavailable speaks of the last step only: that step changed nothing, but the claim exists.
func unknownOutcome(what string, reason error) error {
	if errors.Is(reason, driver.ErrUnavailable) {
		return errors.New(what + ": " + reason.Error())
	}
	return fmt.Errorf("%s: %w", what, reason)
}
