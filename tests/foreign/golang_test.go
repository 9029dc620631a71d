package foreign

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A lock is a held lock of another client.
type lock interface {
	renew(ttl time.Duration) (bool, error)
	release() (bool, error)
}

// A takeFunc acquires a lock of another client, with the given number of tries. It returns nil if
// the lock is refused.
type takeFunc func(key string, ttl time.Duration, tries int, pause time.Duration) (lock, error)

// playRedislock is a role: github.com/bsm/redislock.
func playRedislock(args []string) int {
	client := dial(args)
	locker := redislock.New(client)
	return obey(client, func(key string, ttl time.Duration, tries int, pause time.Duration) (lock, error) {
		retry := redislock.LimitRetry(redislock.LinearBackoff(pause), tries-1)
		// Without a deadline redislock would give up after the TTL.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l, err := locker.Obtain(ctx, key, ttl, &redislock.Options{RetryStrategy: retry})
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil, nil
		}
		return redislockLock{l}, err
	})
}

type redislockLock struct{ l *redislock.Lock }

func (l redislockLock) renew(ttl time.Duration) (bool, error) {
	err := l.l.Refresh(context.Background(), ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l redislockLock) release() (bool, error) {
	err := l.l.Release(context.Background())
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

// playRedsync is a role: github.com/go-redsync/redsync.
func playRedsync(args []string) int {
	client := dial(args)
	rs := redsync.New(pool.NewPool(client))
	return obey(client, func(key string, ttl time.Duration, tries int, pause time.Duration) (lock, error) {
		// By default a call may take a twentieth of the TTL, which is too short on a busy machine.
		// The whole TTL is the longest useful time.
		m := rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(tries),
			redsync.WithRetryDelay(pause), redsync.WithTimeoutFactor(1))
		err := m.Lock()
		if taken(err) {
			return nil, nil
		}
		return redsyncLock{m}, err
	})
}

type redsyncLock struct{ m *redsync.Mutex }

func (l redsyncLock) renew(time.Duration) (bool, error) { return settle(l.m.Extend()) }
func (l redsyncLock) release() (bool, error)            { return settle(l.m.Unlock()) }

// settle turns a refusal of redsync into false.
func settle(ok bool, err error) (bool, error) {
	if taken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return false, nil
	}
	return ok, err
}

func taken(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

func dial(args []string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: net.JoinHostPort(args[0], args[1])})
}

// An actor runs the commands of the test on locks of another client.
type actor struct {
	redis *redis.Client
	take  takeFunc
	locks map[string]lock
}

// obey answers commands line by line until the input ends.
func obey(client *redis.Client, take takeFunc) int {
	a := actor{redis: client, take: take, locks: map[string]lock{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := a.do(strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Println(answer)
	}
	return 0
}

func (a *actor) do(words []string) (string, error) {
	verb, key, rest := words[0], words[1], words[2:]
	switch verb {
	case "take":
		return yes(a.get(key, ms(rest[0]), 1, 0))
	case "await":
		pause, limit := ms(rest[1]), ms(rest[2])
		return yes(a.get(key, ms(rest[0]), int(limit/pause), pause))
	case "hammer":
		return a.hammer(key, ms(rest[0]), ms(rest[1]))
	case "renew":
		return yes(a.locks[key].renew(ms(rest[0])))
	case "release":
		return yes(a.locks[key].release())
	case "count":
		return a.count(key, ms(rest[0]), rest[1], ms(rest[2]))
	}
	return "", fmt.Errorf("unknown verb %q", verb)
}

func (a *actor) get(key string, ttl time.Duration, tries int, pause time.Duration) (bool, error) {
	l, err := a.take(key, ttl, tries, pause)
	if err != nil || l == nil {
		return false, err
	}
	a.locks[key] = l
	return true, nil
}

func (a *actor) hammer(key string, ttl, limit time.Duration) (string, error) {
	tries := 0
	for end := time.Now().Add(limit); time.Now().Before(end); {
		tries++
		ok, err := a.get(key, ttl, 1, 0)
		if err != nil {
			return "", err
		}
		if ok {
			answer, err := yes(a.locks[key].release())
			return fmt.Sprint(answer, " ", tries), err
		}
	}
	return fmt.Sprint("no ", tries), nil
}

func (a *actor) count(
	key string, ttl time.Duration, counter string, span time.Duration,
) (string, error) {
	rounds := 0
	for end := time.Now().Add(span); time.Now().Before(end); {
		const pause = 5 * time.Millisecond
		ok, err := a.get(key, ttl, int(span/pause), pause)
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		if err := increment(a.redis, counter); err != nil {
			return "", err
		}
		ok, err = a.locks[key].release()
		if err != nil {
			return "", err
		}
		if !ok {
			return "", errors.New("the lock was lost while it was held")
		}
		rounds++
		time.Sleep(between())
	}
	return fmt.Sprint("did ", rounds), nil
}

// increment adds 1 to a counter without atomicity: increments of others in this time are lost.
func increment(client *redis.Client, counter string) error {
	ctx := context.Background()
	n, err := client.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	time.Sleep(time.Millisecond)
	return client.Set(ctx, counter, n+1, 0).Err()
}

// between returns the pause of a client after each round.
func between() time.Duration { return 5*time.Millisecond + rand.N(10*time.Millisecond) }

func yes(ok bool, err error) (string, error) {
	if ok {
		return "yes", err
	}
	return "no", err
}

func ms(s string) time.Duration {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // the test sends numbers
	}
	return time.Duration(n) * time.Millisecond
}
