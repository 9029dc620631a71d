package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	syncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	client "github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// ttl is the TTL of all locks.
const ttl = 30 * time.Second

// A locker is a library in one process: lock waits for a key.
type locker interface {
	lock(ctx context.Context, key string) (hold, error)
}

// A hold is an acquired lock. The types below contain one pointer, so that a hold causes no
// allocation in the bench itself.
type hold interface{ unlock() error }

// A peer is a library and the way it is used here.
type peer struct {
	name string
	open func(addr string, later func(func())) (locker, error)
}

// peers returns the libraries, distlock first. Libraries that poll get a pause of 1 ms between
// attempts, much less than in their documentation: a shorter pause gives them better figures.
func peers() []peer {
	return []peer{
		{"distlock", openDistlock},
		{"redislock, polls every 1 ms", openRedislock(time.Millisecond)},
		{"redislock on AutoPipeline, polls every 1 ms", openPipelined(time.Millisecond)},
		{"redsync, polls every 1 ms", openRedsync(time.Millisecond)},
		{"rueidislock, 1 key", openRueidislock(1)},
	}
}

// byDefault returns the peers with the pauses and the number of keys of their documentation.
func byDefault() []peer {
	return []peer{
		{"redislock, polls every 100 ms as documented", openRedislock(100 * time.Millisecond)},
		{"redsync by default", openRedsync(0)},
		{"rueidislock by default", openRueidislock(2)},
	}
}

// connect opens the client that both distlock and the raw commands use.
func connect(addr string, later func(func())) (client.Client, error) {
	c, err := client.NewClient(client.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	later(c.Close)
	return c, nil
}

func openStore(addr string, later func(func())) (driver.Store, error) {
	c, err := connect(addr, later)
	if err != nil {
		return nil, err
	}
	s, err := rueidisstore.New(c, nil)
	if err != nil {
		return nil, err
	}
	later(func() { _ = s.Close() })
	return s, nil
}

func openDistlock(addr string, later func(func())) (locker, error) {
	s, err := openStore(addr, later)
	if err != nil {
		return nil, err
	}
	return newDistlock(s, later)
}

func newDistlock(s driver.Store, later func(func()), opts ...distlock.Option) (ours, error) {
	l, err := distlock.New(s, opts...)
	if err != nil {
		return ours{}, err
	}
	later(func() { _ = l.Close(context.Background()) })
	return ours{l}, nil
}

type ours struct{ *distlock.Locker }

func (o ours) lock(ctx context.Context, key string) (hold, error) {
	lease, err := o.Lock(ctx, key)
	return ourHold{lease}, err
}

type ourHold struct{ *distlock.Lease }

func (h ourHold) unlock() error { return h.Unlock(context.Background()) }

// connectGo opens a go-redis client with a connection for every goroutine.
func connectGo(addr string, later func(func())) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: addr, PoolSize: contenders})
	later(func() { _ = c.Close() })
	return c
}

func openRedislock(pause time.Duration) func(string, func(func())) (locker, error) {
	return func(addr string, later func(func())) (locker, error) {
		return byRedislock{redislock.New(connectGo(addr, later)), &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}}, nil
	}
}

// openPipelined opens redislock on the client of go-redis that sends the calls of all goroutines
// together.
func openPipelined(pause time.Duration) func(string, func(func())) (locker, error) {
	return func(addr string, later func(func())) (locker, error) {
		c, err := connectGo(addr, later).AutoPipeline()
		if err != nil {
			return nil, err
		}
		return byRedislock{redislock.New(c), &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}}, nil
	}
}

type byRedislock struct {
	*redislock.Client
	opt *redislock.Options
}

func (r byRedislock) lock(ctx context.Context, key string) (hold, error) {
	l, err := r.Obtain(ctx, key, ttl, r.opt)
	return redislockHold{l}, err
}

type redislockHold struct{ *redislock.Lock }

func (h redislockHold) unlock() error { return h.Release(context.Background()) }

func openRedsync(pause time.Duration) func(string, func(func())) (locker, error) {
	return func(addr string, later func(func())) (locker, error) {
		return newRedsync([]string{addr}, pause, later), nil
	}
}

func newRedsync(addrs []string, pause time.Duration, later func(func())) byRedsync {
	var pools []syncredis.Pool
	for _, addr := range addrs {
		pools = append(pools, syncpool.NewPool(connectGo(addr, later)))
	}
	opts := []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(1 << 30)}
	if pause > 0 {
		opts = append(opts, redsync.WithRetryDelay(pause))
	}
	return byRedsync{redsync.New(pools...), opts}
}

type byRedsync struct {
	*redsync.Redsync
	opts []redsync.Option
}

func (r byRedsync) lock(ctx context.Context, key string) (hold, error) {
	m := r.NewMutex(key, r.opts...)
	return redsyncHold{m}, m.LockContext(ctx)
}

type redsyncHold struct{ *redsync.Mutex }

func (h redsyncHold) unlock() error {
	ok, err := h.UnlockContext(context.Background())
	if err == nil && !ok {
		err = errors.New("redsync: not unlocked")
	}
	return err
}

func openRueidislock(majority int32) func(string, func(func())) (locker, error) {
	return func(addr string, later func(func())) (locker, error) {
		return newRueidislock(addr, ttl, majority, later)
	}
}

func newRueidislock(addr string, validity time.Duration, majority int32, later func(func())) (byRueidislock, error) {
	opt := rueidislock.LockerOption{ClientOption: client.ClientOption{InitAddress: []string{addr}}, KeyMajority: majority, KeyValidity: validity}
	if majority == 1 {
		opt.NoLoopTracking = true
		// By default it gives up an attempt after 20 ms, and may then wait for a notification that
		// never comes.
		opt.TryNextAfter = time.Second
	}
	l, err := rueidislock.NewLocker(opt)
	if err != nil {
		return byRueidislock{}, fmt.Errorf("rueidislock: %w", err)
	}
	later(l.Close)
	return byRueidislock{l}, nil
}

type byRueidislock struct{ rueidislock.Locker }

func (r byRueidislock) lock(ctx context.Context, key string) (hold, error) {
	_, cancel, err := r.WithContext(ctx, key)
	return rueidislockHold(cancel), err
}

type rueidislockHold context.CancelFunc

func (h rueidislockHold) unlock() error {
	h()
	return nil
}
