package foreign

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
)

// endless takes a key without expiry, and returns how to give it back.
func endless(t *testing.T, p *pair) (giveBack func()) {
	if p.other != nil {
		p.other.must("yes", "take", p.key, 0)
		return func() { p.other.must("yes", "release", p.key) }
	}
	_, err := p.srv.Do(p.ctx, "SET", p.key, "somebody")
	p.ok(err)
	return func() {
		t.Helper()
		_, err := p.srv.Do(p.ctx, "DEL", p.key)
		p.ok(err)
	}
}

// A key without expiry is polled, named in the error, and not stolen.
func TestEndless(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, p *pair) {
		giveBack := endless(t, p)
		p.untouched(func() {
			p.refused(0, 0)
			ctx, cancel := context.WithTimeout(p.ctx, short)
			defer cancel()
			_, err := p.ours.Lock(ctx, p.name, distlock.Backoff(poll, poll))
			p.named(err, 0, 0)
		})
		got := p.wait()
		p.waiting(got)
		given := time.Now()
		giveBack()
		p.ok(p.granted(got, given, time.Now().Add(time.Second+soon)).Unlock(p.ctx))
	}
	t.Run("SET", func(t *testing.T) {
		t.Parallel()
		check(t, newPair(t, testenv.Redis(t, testenv.Shared()), nil))
	})
	t.Run("redis-py without a timeout", func(t *testing.T) {
		t.Parallel()
		for _, k := range kinds {
			if k.name == "redis-py" {
				srv := testenv.Redis(t, testenv.Shared())
				check(t, newPair(t, srv, start(t, k, srv)))
			}
		}
	})
}

// A key that holds no string is an error of its own, not a lock, and nothing is written.
func TestWrongType(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"RPUSH", "x"}, {"HSET", "a", "b"}, {"SADD", "x"}, {"ZADD", "1", "x"}} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			p := newPair(t, testenv.Redis(t, testenv.Shared()), nil)
			_, err := p.srv.Do(p.ctx, append([]string{command[0], p.key}, command[1:]...)...)
			p.ok(err)
			before, err := p.srv.Do(p.ctx, "DUMP", p.key)
			p.ok(err)
			wrong := func(call string, err error) {
				t.Helper()
				if !errors.Is(err, driver.ErrInvalid) || errors.Is(err, distlock.ErrHeld) {
					t.Errorf("%s: got %v, want driver.ErrInvalid", call, err)
				}
			}
			_, err = p.ours.TryLock(p.ctx, p.name)
			wrong("TryLock", err)
			_, err = p.ours.Lock(p.ctx, p.name)
			wrong("Lock", err)
			_, err = p.ours.RLock(p.ctx, p.name)
			wrong("RLock", err)
			r := p.request(1, 5, long)
			r.QueueTTL = long
			_, err = p.ours.store.Acquire(p.ctx, r)
			wrong("Acquire", err)
			_, err = p.ours.store.Renew(p.ctx, driver.Renewal{ID: r.ID, TTL: long})
			wrong("Renew", err)
			wrong("Release", p.ours.store.Release(p.ctx, r.ID))

			after, err := p.srv.Do(p.ctx, "DUMP", p.key)
			p.ok(err)
			if after != before {
				t.Error("the key was changed")
			}
			beside, err := p.srv.Do(p.ctx, "KEYS", "{"+p.key+"}*")
			p.ok(err)
			if keys := beside.([]any); len(keys) > 0 {
				t.Errorf("left beside it: %v", keys)
			}
		})
	}
}
