package main

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/distlock/distlock/driver"
)

// An asked is a store that remembers who asked last, by the mark that others see. One call of run asks for one lock, so that
// is how it finds itself in a line: several may call themselves by the same holder.
type asked struct {
	driver.Store
	tag atomic.Value // a string
}

// Acquire remembers the owner.
func (s *asked) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	s.tag.Store(driver.Tag(r.Owner))
	return s.Store.Acquire(ctx, r)
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

func (s *asked) Break(ctx context.Context, key, reason string) ([]driver.Claim, error) {
	return driver.Break(ctx, s.Store, key, reason)
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
