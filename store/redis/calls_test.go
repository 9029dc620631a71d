package redis_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/store/redis"
)

// Do waits for a call that ends soon after ctx, and abandons a longer one with the cause of ctx.
// Wait waits for the abandoned call.
func TestCalls(t *testing.T) {
	gone := errors.New("the caller has left")
	for took, want := range map[time.Duration]error{
		0: nil, time.Second + time.Millisecond: nil, time.Minute: gone,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
			defer cancel()
			var calls redis.Calls
			began := time.Now()
			ended := false
			err := calls.Do(ctx, func() {
				time.Sleep(took)
				ended = true
			})
			if waited := time.Since(began); !errors.Is(err, want) || waited > 2*time.Second {
				t.Errorf("a call of %v: %v after %v, want %v", took, err, waited, want)
			}
			calls.Wait()
			if waited := time.Since(began); !ended || waited != took {
				t.Errorf("a call of %v: Wait returned after %v, ended %v", took, waited, ended)
			}
		})
	}
}
