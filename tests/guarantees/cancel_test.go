package guarantees_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// The context of a Lock is cancelled while the server does not answer. The call returns within the
// second of a withdrawal, both if it waits in the queue and if it has just sent its first attempt.
// The error is ErrUnknown, because the server still processes the request later. The withdrawal was
// sent after the request, so the server then releases its grant.
//
// There is one exception. With rueidis, a single call that follows an answer by less than 50 ms
// reads its answer in the goroutine of the caller, and only obeys its deadline. It takes the limit
// of a call, 5 s, and the withdrawal. A grant of such a call lives for a TTL and no longer.
func TestCancel_silentServer(t *testing.T) {
	t.Parallel()
	const (
		ttl      = 30 * time.Second
		withdraw = time.Second
		limit    = 5 * time.Second
		slack    = time.Second // for a busy machine
	)
	for name, open := range clients {
		for how, most := range map[string]time.Duration{
			"waits":    withdraw,
			"attempts": withdraw,
			"attempts at once": map[string]time.Duration{"goredis": withdraw,
				"rueidis": limit + withdraw}[name],
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				released := how == "attempts" && name == "rueidis"
				s := silence{how: how, ttl: ttl, most: most + slack, released: released}
				for tries := 1; !s.cancelled(t, open); tries++ {
					if tries == 5 {
						t.Fatal("no request was sent in time: this tests nothing")
					}
				}
			})
		}
	}
}

// A silence describes how a Lock is cancelled while the server does not answer.
type silence struct {
	how       string
	ttl, most time.Duration
	released  bool // a late grant must be released
}

// cancelled runs the case. It returns false if a busy machine had not sent the request when the
// context was cancelled.
func (s silence) cancelled(t *testing.T, open func(testing.TB, string) driver.Store) (sent bool) {
	srv := testenv.Redis(t)
	l := locker(t, open(t, srv.Addr), distlock.TTL(s.ttl))
	unlock(t, persist(t, l, "key")) // opens connections and loads scripts
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var held *distlock.Lease
	if s.how == "waits" {
		held = persist(t, locker(t, open(t, srv.Addr), distlock.TTL(s.ttl)), "key")
	}
	before := calls(t, srv)
	if s.how == "attempts" {
		time.Sleep(100 * time.Millisecond) // the last answer of the server is some time ago
	}
	if held == nil {
		srv.Pause()
	}
	result, attempted := make(chan error, 1), make(chan struct{}, 100)
	go func() {
		_, err := l.Lock(ctx, "key", distlock.Observe(func(_ context.Context, e distlock.Event) {
			if e.Type == distlock.EventAttempted {
				attempted <- struct{}{}
			}
		}))
		result <- err
	}()
	if held != nil {
		// The first attempt leaves nothing in the store. The second one makes the queue entry. A
		// call that is cancelled between them has nothing to withdraw, and its error is definite.
		<-attempted
		<-attempted
		srv.Pause()
	} else {
		time.Sleep(100 * time.Millisecond) // the attempt was sent
	}
	clock := testenv.NewStopwatch(t)
	cancel()
	err := <-result
	took := clock.Elapsed()
	srv.Resume()
	if held != nil {
		release(t, held)
	}
	left := settled(t, srv, "lock:key", s.released)
	if after := calls(t, srv); after["evalsha"] == before["evalsha"] &&
		after["eval"] == before["eval"] {
		return false
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(err, distlock.ErrUnknown) {
		t.Errorf("Lock: %v, want the cause and ErrUnknown", err)
	}
	if took > s.most {
		t.Errorf("Lock returned %v after its context was cancelled, want at most %v", took, s.most)
	}
	if left > s.ttl.Milliseconds() {
		t.Errorf("the key is held for %d ms, want at most the TTL of %v", left, s.ttl)
	}
	if s.released && left >= 0 {
		t.Errorf("the key is held for %d ms, want a free key: the grant had to be released", left)
	}
	t.Logf("returned %v after its context was cancelled; left in the store for %v",
		took.Round(time.Millisecond),
		max(0, time.Duration(left)*time.Millisecond))
	return true
}

// settled returns the remaining TTL of a key in ms, after the server has processed all earlier
// requests. The result is negative if there is no key. If the key must be released, settled waits
// for the release.
func settled(t *testing.T, srv *testenv.RedisServer, key string, released bool) int64 {
	t.Helper()
	left := int64(0)
	for i := 0; i < 20 || released && left >= 0 && i < int(soon/(10*time.Millisecond)); i++ {
		left, _ = do(t, srv, "PTTL", key).(int64)
		if left == -1 {
			t.Fatal("the key lives for ever")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}
