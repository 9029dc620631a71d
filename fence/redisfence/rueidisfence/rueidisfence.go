// Package rueidisfence makes a [redisfence.Client] from a rueidis client.
package rueidisfence

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/distlock/distlock/fence/redisfence"
)

// New returns a client. It sends each script once, regardless of the client's options for retries:
// rueidis sends only commands again that read.
func New(c rueidis.Client) redisfence.Client { return client{c} }

type client struct{ c rueidis.Client }

// Eval runs a script.
func (c client) Eval(ctx context.Context, verb, script string, keys, args []string) (any, error) {
	cmd := c.c.B().Arbitrary(verb, script, strconv.Itoa(len(keys))).Keys(keys...).Args(args...).Build()
	v, err := c.c.Do(ctx, cmd).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return nil, reply
	}
	if err != nil {
		return nil, err
	}
	return plain(v), nil
}

// plain replaces the error that stands for nil in a list by nil.
func plain(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	for i := range list {
		if err, ok := list[i].(error); ok && rueidis.IsRedisNil(err) {
			list[i] = nil
		} else {
			list[i] = plain(list[i])
		}
	}
	return list
}
