package main

import (
	"context"
	"crypto/rand"
	"sync"

	client "github.com/redis/rueidis"
)

// The scripts of a queue that stores only names: the least cost of a fair queue with a message for
// the next waiter, without fences, holders, expiry, and the exclusion of other clients.
var (
	queueLock = client.NewLuaScript(`if redis.call('SET', KEYS[1], '1', 'NX') then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0`)

	queueUnlock = client.NewLuaScript(`local next = redis.call('LPOP', KEYS[2])
if next then redis.call('PUBLISH', next, '') else redis.call('DEL', KEYS[1]) end
return 1`)
)

// A queueLocker waits in such a queue. It is for one goroutine.
type queueLocker struct {
	c       client.Client
	channel string
	wake    chan struct{}
}

// openQueue opens a locker for each goroutine. All use one client, which receives their messages on
// one connection.
func openQueue(addr string, later func(func())) ([]locker, error) {
	c, err := connect(addr, later)
	if err != nil {
		return nil, err
	}
	var out []locker
	var channels []string
	wakes := map[string]chan struct{}{}
	for range threads {
		l := queueLocker{c, "queue:" + rand.Text(), make(chan struct{}, 1)}
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

func (l queueLocker) lock(ctx context.Context, key string) (hold, error) {
	n, err := queueLock.Exec(context.WithoutCancel(ctx), l.c, []string{key, "{" + key + "}:queue"}, []string{l.channel}).AsInt64()
	if err != nil || n == 1 {
		return queueHold{l, key}, err
	}
	select {
	case <-l.wake:
		return queueHold{l, key}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type queueHold struct {
	l   queueLocker
	key string
}

func (h queueHold) unlock() error {
	return queueUnlock.Exec(context.Background(), h.l.c, []string{h.key, "{" + h.key + "}:queue"}, nil).Error()
}
