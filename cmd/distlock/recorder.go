package main

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

// reasonLimit bounds the request for the reason of a loss. The command has ended, and its caller
// waits for the exit code.
const reasonLimit = time.Second

// A recorder is a store that records the owner of the last [driver.Request], as [driver.Tag] shows
// it to others, and the last grant. A call of run acquires one lock, so the tag identifies its own
// entry in the queue. The holder does not: several processes may have the same one.
type recorder struct {
	driver.Forward
	tag     atomic.Value // a string
	granted atomic.Value // a driver.ID
}

// Acquire records the owner, and the claim if it is granted.
func (s *recorder) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.tag.Store(driver.Tag(r.Owner))
	res, err := s.Store.Acquire(ctx, r)
	if err == nil && res.Granted {
		s.granted.Store(r.ID)
	}
	return res, err
}

// breakReason returns the reason for which the last grant was broken. It is empty if the grant was
// not broken, or if the store does not answer in time. The claim must be lost: the store returns
// the reason to a renewal only, and the renewal of a lost claim changes nothing.
func (s *recorder) breakReason(ctx context.Context) string {
	id, ok := s.granted.Load().(driver.ID)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, reasonLimit)
	defer cancel()
	_, err := s.Renew(ctx, driver.Renewal{ID: id, TTL: cmp.Or(s.Features().MinTTL, time.Second)})
	var broken *driver.BrokenError
	if !errors.As(err, &broken) {
		return ""
	}
	return broken.Reason
}

// isOwner reports whether an owner, as stores show it, is the owner of the last request.
func (s *recorder) isOwner(owner string) bool {
	tag, ok := s.tag.Load().(string)
	return ok && tag == owner
}
