package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"

	client "github.com/redis/rueidis"
)

// A pair acquires and releases a key. If ctx ends meanwhile, nothing may be left behind.
type pair func(ctx context.Context, key string) error

var (
	errTaken   = errors.New("the key is held")
	errNotOurs = errors.New("the key has another owner")

	millis = strconv.FormatInt(ttl.Milliseconds(), 10)
)

// The raw scripts. rawDrop releases as every library does: compare and delete.
var (
	rawDrop = client.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

	rawFenced = client.NewLuaScript(`if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`)

	// rawSame writes the same data as distlock for an exclusive claim, and computes the fence by
	// the same rule.
	rawSame = client.NewLuaScript(`local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = string.match(redis.call('GET', KEYS[2]) or '0', '^%d+')
local fence = string.format('%.0f', math.max(last + 128, now))
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return '' end
redis.call('SET', KEYS[2], fence .. '\n' .. #ARGV[1] .. ' ' .. ARGV[1] .. fence .. ' 0 ' .. #ARGV[3] .. ' 0\n' .. ARGV[3], 'PX', 600000)
return fence`)
)

// who is as long as the default holder of distlock.
const who = "18:host-of-bench:12345"

// The three raw pairs: bare commands, with a fence, and with distlock's data.
func rawPlain(c client.Client) pair {
	return func(ctx context.Context, key string) error {
		owner := rand.Text()
		err := c.Do(ctx, c.B().Set().Key(key).Value(owner).Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
		if err != nil {
			return fmt.Errorf("%w: %w", errTaken, err)
		}
		return drop(ctx, c, key, owner)
	}
}

func rawWithFence(c client.Client) pair {
	return func(ctx context.Context, key string) error {
		owner := rand.Text()
		n, err := rawFenced.Exec(ctx, c, []string{key, key + ":fence"}, []string{owner, millis}).AsInt64()
		if err != nil || n == 0 {
			return errors.Join(errTaken, err)
		}
		return drop(ctx, c, key, owner)
	}
}

func rawWithData(c client.Client) pair {
	return func(ctx context.Context, key string) error {
		owner := rand.Text()
		fence, err := rawSame.Exec(ctx, c, []string{key, "{" + key + "}:m"}, []string{owner, millis, who}).ToString()
		if err != nil || fence == "" {
			return errors.Join(errTaken, err)
		}
		return drop(ctx, c, key, owner)
	}
}

func drop(ctx context.Context, c client.Client, key, owner string) error {
	n, err := rawDrop.Exec(ctx, c, []string{key}, []string{owner}).AsInt64()
	if err == nil && n != 1 {
		err = errNotOurs
	}
	return err
}

// pairOf returns the pair of a library.
func pairOf(l locker) pair {
	return func(ctx context.Context, key string) error {
		h, err := l.lock(ctx, key)
		if err != nil {
			return err
		}
		return h.unlock()
	}
}

// A way is one of the ways to do a pair.
type way struct {
	name string
	open func(addr string, later func(func())) (pair, error)
}

// ways returns all ways: three raw ones and those of the libraries.
func ways() []way {
	raw := func(name string, of func(client.Client) pair) way {
		return way{name, func(addr string, later func(func())) (pair, error) {
			c, err := connect(addr, later)
			if err != nil {
				return nil, err
			}
			do := of(c)
			return func(ctx context.Context, key string) error { return do(context.WithoutCancel(ctx), key) }, nil
		}}
	}
	out := []way{
		raw("raw: SET NX PX, compare and delete", rawPlain),
		raw("raw with a fence", rawWithFence),
		raw("raw with distlock's data and fence", rawWithData),
	}
	for _, p := range append(peers(), byDefault()[2]) {
		out = append(out, way{p.name, func(addr string, later func(func())) (pair, error) {
			l, err := p.open(addr, later)
			if err != nil {
				return nil, err
			}
			return pairOf(l), nil
		}})
	}
	return out
}

// The indexes of the ways.
const (
	wayRaw = iota
	wayFenced
	waySame
	wayOurs
	wayRedislock
)
