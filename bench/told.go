package main

import (
	"context"
	"crypto/rand"
	"sync"

	client "github.com/redis/rueidis"
)

// The scripts of a line that keeps nothing but names: the least that a fair line with a message for the next one costs, before there are
// fences, holders, lives, and the exclusion of other clients.
var (
	toldAsk = client.NewLuaScript(`if redis.call('SET', KEYS[1], '1', 'NX') then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0`)

	toldPass = client.NewLuaScript(`local next = redis.call('LPOP', KEYS[2])
if next then redis.call('PUBLISH', next, '') else redis.call('DEL', KEYS[1]) end
return 1`)
)

// A toldLocker waits in such a line. It is for one goroutine.
type toldLocker struct {
	c       client.Client
	channel string
	wake    chan struct{}
}

// openTold opens a locker for each goroutine, all on one client, which hears of them by one connection.
func openTold(addr string, later func(func())) ([]locker, error) {
	c, err := connect(addr, later)
	if err != nil {
		return nil, err
	}
	var out []locker
	var channels []string
	wakes := map[string]chan struct{}{}
	for range threads {
		l := toldLocker{c, "told:" + rand.Text(), make(chan struct{}, 1)}
		out, channels, wakes[l.channel] = append(out, l), append(channels, l.channel), l.wake
	}
	d, release := c.Dedicate()
	later(release)
	var up sync.WaitGroup
	up.Add(threads)
	d.SetPubSubHooks(client.PubSubHooks{
		OnSubscription: func(s client.PubSubSubscription) {
			if s.Kind == "subscribe" {
				up.Done()
			}
		},
		OnMessage: func(m client.PubSubMessage) { wakes[m.Channel] <- struct{}{} },
	})
	if err := d.Do(context.Background(), d.B().Subscribe().Channel(channels...).Build()).Error(); err != nil {
		return nil, err
	}
	up.Wait()
	return out, nil
}

func (l toldLocker) lock(ctx context.Context, key string) (hold, error) {
	n, err := toldAsk.Exec(context.WithoutCancel(ctx), l.c, []string{key, "{" + key + "}:line"}, []string{l.channel}).AsInt64()
	if err != nil || n == 1 {
		return toldHold{l, key}, err
	}
	select {
	case <-l.wake:
		return toldHold{l, key}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type toldHold struct {
	l   toldLocker
	key string
}

func (h toldHold) unlock() error {
	return toldPass.Exec(context.Background(), h.l.c, []string{h.key, "{" + h.key + "}:line"}, nil).Error()
}
