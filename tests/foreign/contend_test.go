package foreign

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
)

// Processes of distlock and of all clients increment one counter under one lock. No increment is
// lost, and every process makes progress.
func TestContention(t *testing.T) {
	srv := testenv.Redis(t)
	const (
		span    = 4 * time.Second
		ourSize = 3
		size    = 2 // clients of each other kind
	)
	key := "lock:" + rand.Text()
	var all []*client
	for range ourSize {
		all = append(all, &client{testenv.Helper(t, "counter", srv.Addr), t, "distlock"})
	}
	for _, k := range kinds {
		t.Run(k.name, func(s *testing.T) {
			for _, find := range k.needs {
				have(s, find)
			}
			for range size {
				all = append(all, start(t, k, srv))
			}
		})
	}
	for _, c := range all { // all are ready before the first one begins
		c.must("yes", "take", "ready"+strconv.Itoa(c.PID()), long)
	}
	for _, c := range all {
		c.send("count", key, long, "counter", span)
	}
	sum := 0
	for _, c := range all {
		word, rounds, _ := strings.Cut(c.answer(), " ")
		n, err := strconv.Atoi(rounds)
		if word != "did" || err != nil {
			t.Fatalf("%s: %s %s", c.kind, word, rounds)
		}
		t.Logf("%-10s %d rounds", c.kind, n)
		if n < 5 {
			t.Errorf("%s: %d rounds in %v", c.kind, n, span)
		}
		sum += n
	}
	ctx := context.Background()
	counted, err := srv.Do(ctx, "GET", "counter")
	if err != nil || counted != fmt.Sprint(sum) {
		t.Errorf("the counter is %v (%v) after %d rounds", counted, err, sum)
	}
	fences, err := srv.Do(ctx, "LRANGE", fenceList, "0", "-1")
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for _, f := range fences.([]any) {
		fence, err := strconv.ParseUint(f.(string), 10, 64)
		if err != nil || fence <= last {
			t.Fatalf("fence %v (%v) after %d", f, err, last)
		}
		last = fence
	}
}

// fenceList is the Redis list of the fences of distlock, in the order of its rounds.
const fenceList = "fences"

// playCounter is a role: distlock counts like the other clients. Argument: the address.
func playCounter(args []string) int {
	o, end, err := open(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer end()
	plain := redis.NewClient(&redis.Options{Addr: args[0]})
	defer plain.Close()
	return obey(plain, func(key string, ttl time.Duration, tries int, pause time.Duration) (lock, error) {
		name := strings.TrimPrefix(key, "lock:")
		ctx, cancel := context.WithTimeout(context.Background(),
			time.Duration(tries)*max(pause, time.Second))
		defer cancel()
		// Other clients notify nobody of their release, so distlock polls as often as they do.
		lease, err := o.Lock(ctx, name, distlock.TTL(ttl),
			distlock.Backoff(max(pause, poll), max(pause, poll)))
		if err != nil {
			return nil, err
		}
		return ourLock{lease, plain}, nil
	})
}

type ourLock struct {
	*distlock.Lease
	redis *redis.Client
}

func (l ourLock) renew(ttl time.Duration) (bool, error) {
	err := l.Extend(context.Background(), ttl)
	return err == nil, err
}

func (l ourLock) release() (bool, error) {
	ctx := context.Background()
	if err := l.redis.RPush(ctx, fenceList, l.Fence()).Err(); err != nil {
		return false, err
	}
	err := l.Unlock(ctx)
	return err == nil, err
}
