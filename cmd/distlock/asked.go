package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/distlock/distlock/driver"
)

// whyLimit bounds the look for the reason of a loss: the command has ended, and its caller waits.
const whyLimit = time.Second

// An asked is a store that remembers who asked last, by the mark that others see. One call of run asks for one lock, so that
// is how it finds itself in a line: several may call themselves by the same holder. It also remembers the last grant.
type asked struct {
	driver.Store
	tag     atomic.Value // a string
	granted atomic.Value // a driver.ID
}

// Acquire remembers the owner.
func (s *asked) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.tag.Store(driver.Tag(r.Owner))
	res, err := s.Store.Acquire(ctx, r)
	if err == nil && res.Granted {
		s.granted.Store(r.ID)
	}
	return res, err
}

// whyBroken tells for which reason the last grant was broken; "" if it was not, or if the store does not tell in time. It is for a claim that is
// lost: only a renewal is told the reason, and one of what is not held changes nothing.
func (s *asked) whyBroken(ctx context.Context) string {
	id, ok := s.granted.Load().(driver.ID)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, whyLimit)
	defer cancel()
	_, err := s.Renew(ctx, driver.Renewal{ID: id, TTL: cmp.Or(s.Features().MinTTL, time.Second)})
	var broken *driver.BrokenError
	if !errors.As(err, &broken) {
		return ""
	}
	return broken.Reason
}

// is reports whether an owner, as stores show it, is the one that asked.
func (s *asked) is(owner string) bool {
	tag, ok := s.tag.Load().(string)
	return ok && tag == owner
}

// The verbs that a store need not have are those of the store, or what is done without them.

func (s *asked) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return driver.Watch(ctx, s.Store, id)
}

func (s *asked) Losses(ctx context.Context) <-chan []driver.ID { return driver.Losses(ctx, s.Store) }

func (s *asked) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	return driver.Show(ctx, s.Store, key)
}

func (s *asked) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return driver.List(ctx, s.Store, prefix)
}

func (s *asked) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	return driver.RenewAll(ctx, s.Store, rs)
}

func (s *asked) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	return driver.Break(ctx, s.Store, key, upTo, reason)
}

func (s *asked) Inspect(ctx context.Context) (driver.Info, error) {
	return driver.Inspect(ctx, s.Store)
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.LossTeller
	driver.Inspector
} = (*asked)(nil)
