package driver

import (
	"context"
	"iter"
)

// Forward is a store that forwards every call to another store, the optional verbs included. A
// store that wraps another embeds a Forward and overrides the methods that it changes. An optional
// verb that the wrapped store lacks is still lacking: the functions of this package return the same
// result for both.
//
// A Forward calls the wrapped store, not the wrapper. So a wrapper that overrides [Store.Renew]
// overrides [RenewAll] too, and a wrapper that overrides [List] overrides [Show] too.
type Forward struct{ Store }

var _ interface {
	Watcher
	Shower
	Lister
	AllRenewer
	Breaker
	LossTeller
	Inspector
} = Forward{}

// Watch forwards to the function [Watch].
func (f Forward) Watch(ctx context.Context, id ID) <-chan Wake { return Watch(ctx, f.Store, id) }

// Losses forwards to the function [Losses].
func (f Forward) Losses(ctx context.Context) <-chan []ID { return Losses(ctx, f.Store) }

// Show forwards to the function [Show].
func (f Forward) Show(ctx context.Context, key string) ([]Claim, error) {
	return Show(ctx, f.Store, key)
}

// List forwards to the function [List].
func (f Forward) List(ctx context.Context, prefix string) iter.Seq2[Claim, error] {
	return List(ctx, f.Store, prefix)
}

// RenewAll forwards to the function [RenewAll].
func (f Forward) RenewAll(ctx context.Context, rs []Renewal) []Renewed {
	return RenewAll(ctx, f.Store, rs)
}

// Break forwards to the function [Break].
func (f Forward) Break(ctx context.Context, key string, upTo uint64, reason string) ([]Claim, error) {
	return Break(ctx, f.Store, key, upTo, reason)
}

// Inspect forwards to the function [Inspect].
func (f Forward) Inspect(ctx context.Context) (Info, error) { return Inspect(ctx, f.Store) }
