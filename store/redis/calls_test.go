package redis_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/redis"
)

// Do waits for a call that ends soon after ctx, and abandons a longer one with the cause of ctx.
// Wait waits for the abandoned call, but not for ever.
func TestCalls(t *testing.T) {
	gone := errors.New("the caller has left")
	for took, want := range map[time.Duration]error{
		0: nil, time.Second + time.Millisecond: nil, 5 * time.Second: gone, time.Minute: gone,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
			defer cancel()
			var calls redis.Calls
			began := time.Now()
			err := calls.Do(ctx, func() { time.Sleep(took) })
			returned := time.Since(began)
			if !errors.Is(err, want) || returned > time.Second+50*time.Millisecond {
				t.Errorf("a call of %v: %v after %v, want %v", took, err, returned, want)
			}
			calls.Close()
			calls.Wait()
			if waited := time.Since(began); waited != min(took, returned+5*time.Second) {
				t.Errorf("a call of %v: Do returned after %v, and Wait after %v", took, returned, waited)
			}
			time.Sleep(took) // the call ends
		})
	}
}

// No call starts after Close: Do and Close at the same time are no race, and Wait has waited for
// every call that ran.
func TestCalls_Close(t *testing.T) {
	for range 100 {
		var calls redis.Calls
		var wg sync.WaitGroup
		running := 0 // the race detector watches it
		var mu sync.Mutex
		for range 4 {
			wg.Go(func() {
				for range 1000 {
					err := calls.Do(t.Context(), func() {
						mu.Lock()
						defer mu.Unlock()
						running++
					})
					if errors.Is(err, driver.ErrUnavailable) {
						return
					}
				}
			})
		}
		calls.Close()
		calls.Wait()
		before := running
		calls.Close() // a second Close is no error
		calls.Wait()
		wg.Wait()
		if running != before {
			t.Fatalf("%d calls ran after Wait", running-before)
		}
		if err := calls.Do(context.Background(), func() { t.Error("a call after Close") }); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("after Close: %v, want ErrUnavailable", err)
		}
	}
}
