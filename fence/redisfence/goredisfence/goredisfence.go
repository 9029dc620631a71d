// Package goredisfence makes a client for package redisfence of a go-redis client.
package goredisfence

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/fence/redisfence"
)

// New returns a client, for a *redis.Client, a *redis.ClusterClient or any other that processes commands. Scripts are sent once, whatever its
// MaxRetries is. An AutoPipeliner is not fit: it sends whole batches again.
func New(c goredis.UniversalClient) redisfence.Client { return client{c} }

type client struct{ c goredis.UniversalClient }

// once is a command that is never sent again: nobody knows whether it was done.
type once struct{ *goredis.Cmd }

// NoRetry is what go-redis asks before it sends a command again.
func (once) NoRetry() bool { return true }

// Eval runs a script.
func (c client) Eval(ctx context.Context, verb, script string, keys, args []string) (any, error) {
	list := make([]any, 0, 3+len(keys)+len(args))
	list = append(list, verb, script, len(keys))
	for _, k := range keys {
		list = append(list, k)
	}
	for _, a := range args {
		list = append(list, a)
	}
	cmd := once{goredis.NewCmd(ctx, list...)}
	if err := c.c.Process(ctx, cmd); err != nil && !errors.Is(err, goredis.Nil) {
		return nil, err
	}
	return cmd.Val(), nil
}
