// Package goredisfence makes a [redisfence.Client] from a go-redis client.
package goredisfence

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"

	"github.com/distlock/distlock/fence/redisfence"
)

// New returns a client for a *redis.Client, a *redis.ClusterClient or any other that processes
// commands. It sends each script once, regardless of MaxRetries. An AutoPipeliner is unsuitable: it
// sends whole batches again.
func New(c goredis.UniversalClient) redisfence.Client { return client{c} }

type client struct{ c goredis.UniversalClient }

// once is a command that go-redis must not send again: the first attempt may have run.
type once struct{ *goredis.Cmd }

// NoRetry disables the retries of go-redis.
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
