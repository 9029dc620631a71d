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

// endless takes a key without expiry, and returns a function that releases it.
func endless(t *testing.T, p *pair) (release func()) {
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

// A key without expiry is polled and never taken over, and the error names its holder.
func TestEndless(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, p *pair) {
		release := endless(t, p)
		p.untouched(func() {
			p.refused(0, 0)
			ctx, cancel := context.WithTimeout(p.ctx, short)
			defer cancel()
			_, err := p.ours.Lock(ctx, p.name, distlock.Backoff(poll, poll))
			p.named(err, 0, 0)
		})
		got := p.wait()
		p.waiting(got)
		released := time.Now()
		release()
		p.ok(p.granted(got, released, time.Now().Add(time.Second+soon)).Unlock(p.ctx))
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

// A key of another type is not a lock: calls return ErrInvalid and write nothing.
func TestWrongType(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{{"RPUSH", "x"}, {"HSET", "a", "b"}, {"SADD", "x"},
		{"ZADD", "1", "x"}} {
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
			others, err := p.srv.Do(p.ctx, "KEYS", "{"+p.key+"}*")
			p.ok(err)
			if keys := others.([]any); len(keys) > 0 {
				t.Errorf("left next to it: %v", keys)
			}
		})
	}
}
