package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// The ctx of a Lock is cancelled while the server says nothing. The call leaves within the second of a withdrawal, whether it waits in
// line or has asked just now. The error says that the outcome is unknown, and it is: the server goes on with what it was sent. When it does, what it
// granted is given back, for the withdrawal was sent after it.
//
// There is one exception. Through rueidis, a call that is alone and follows an answer by less than 50 ms reads its answer in the
// goroutine of the caller, and looks at nothing but its deadline: it takes the limit of a call, 5 s, and the withdrawal. What is granted then lives
// for a TTL and no longer.
func TestCancel_silentServer(t *testing.T) {
	t.Parallel()
	const (
		ttl      = 30 * time.Second
		withdraw = time.Second
		limit    = 5 * time.Second
		slack    = time.Second // of a busy machine
	)
	for name, open := range clients {
		for how, most := range map[string]time.Duration{
			"waits":        withdraw,
			"asks":         withdraw,
			"asks at once": map[string]time.Duration{"goredis": withdraw, "rueidis": limit + withdraw}[name],
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				s := silence{how: how, ttl: ttl, most: most + slack, givenBack: how == "asks" && name == "rueidis"}
				for tries := 1; !s.cancelled(t, open); tries++ {
					if tries == 5 {
						t.Fatal("it was never asked for in time: this tests nothing")
					}
				}
			})
		}
	}
}

// A silence is how a Lock is cancelled while the server says nothing.
type silence struct {
	how       string
	ttl, most time.Duration
	givenBack bool // what is granted all the same
}

// cancelled plays it. It is false if a busy machine had not sent anything when the ctx was cancelled.
func (s silence) cancelled(t *testing.T, open func(testing.TB, string) driver.Store) (asked bool) {
	srv := testenv.Redis(t)
	l := locker(t, open(t, srv.Addr), distlock.TTL(s.ttl))
	unlock(t, lock(t, l, "key")) // connections are made, and scripts are known
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var held *distlock.Lease
	if s.how == "waits" {
		held = lock(t, locker(t, open(t, srv.Addr), distlock.TTL(s.ttl)), "key")
	}
	before := calls(t, srv)
	if s.how == "asks" {
		time.Sleep(100 * time.Millisecond) // nothing was heard of the server for a while
	}
	if held == nil {
		srv.Pause()
	}
	result, waiting := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := l.Lock(ctx, "key", distlock.Observe(func(_ context.Context, e distlock.Event) {
			if e.Type == distlock.EventWaiting {
				close(waiting)
			}
		}))
		result <- err
	}()
	if held != nil {
		<-waiting
		srv.Pause()
	} else {
		time.Sleep(100 * time.Millisecond) // it has asked
	}
	clock := testenv.NewStopwatch(t)
	cancel()
	err := <-result
	took := clock.Elapsed()
	srv.Resume()
	if held != nil {
		giveBack(t, held)
	}
	left := settled(t, srv, "lock:key", s.givenBack)
	if after := calls(t, srv); after["evalsha"] == before["evalsha"] && after["eval"] == before["eval"] {
		return false
	}
	if !errors.Is(err, context.Canceled) || !errors.Is(err, distlock.ErrUnknown) {
		t.Errorf("Lock: %v, want the cause and ErrUnknown", err)
	}
	if took > s.most {
		t.Errorf("Lock returned %v after its ctx was cancelled, want %v at most", took, s.most)
	}
	if left > s.ttl.Milliseconds() {
		t.Errorf("the key is held for %d ms, want the TTL of %v at most", left, s.ttl)
	}
	if s.givenBack && left >= 0 {
		t.Errorf("the key is held for %d ms, want it to be free: what was granted was to be given back", left)
	}
	t.Logf("returned %v after its ctx was cancelled; left in the store for %v", took.Round(time.Millisecond),
		max(0, time.Duration(left)*time.Millisecond))
	return true
}

// settled returns how long a key lives on, in ms, once the server has done what it was sent before; less than 0 if there is none. If it is
// to be given back, it waits for that.
func settled(t *testing.T, srv *testenv.RedisServer, key string, givenBack bool) int64 {
	t.Helper()
	left := int64(0)
	for i := 0; i < 20 || givenBack && left >= 0 && i < int(soon/(10*time.Millisecond)); i++ {
		left, _ = do(t, srv, "PTTL", key).(int64)
		if left == -1 {
			t.Fatal("the key lives for ever")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return left
}
