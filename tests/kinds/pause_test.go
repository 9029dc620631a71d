package kinds_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/mem"
)

// A process that was stopped for longer than the TTL of an outer lease sees the loss at its first
// check of the context of an inner lease that is still held.
func TestPause_nested(t *testing.T) {
	t.Parallel()
	const ttl, rounds = time.Second, 5
	for _, how := range []string{"LockAll", "Lock under Lock"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			h := testenv.Helper(t, "nested", how, ttl.String())
			for range rounds {
				h.Say("take")
				if line := h.Line(); line != "held" {
					t.Fatalf("the holder printed %q", line)
				}
				h.Pause()
				time.Sleep(ttl + ttl/2)
				h.Resume()
				if line := h.Line(); line != "lost" {
					t.Errorf("the first check after the pause printed %q", line)
				}
			}
		})
	}
}

// playNested is a process that, for each line of input, takes an outer lease and a longer inner
// one, and prints the result of the first check after a pause.
func playNested(args []string) int {
	ttl, err := time.ParseDuration(args[1])
	if err != nil {
		return 1
	}
	ctx, lines := context.Background(), bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		l, err := distlock.New(mem.New())
		if err != nil {
			return 1
		}
		work, err := nest(ctx, l, args[0], ttl)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("held")
		fmt.Println(firstCheck(work, ttl))
		_ = l.Close(ctx)
	}
	if lines.Err() != nil {
		return 1
	}
	return 0
}

func nest(
	ctx context.Context, l *distlock.Locker, how string, ttl time.Duration,
) (context.Context, error) {
	if how == "LockAll" {
		all, err := l.LockAll(ctx, []string{"a", "b"}, distlock.TTL(time.Minute))
		if err != nil {
			return nil, err
		}
		return all.Context(ctx), all.Lease("a").Extend(ctx, ttl)
	}
	outer, err := l.Lock(ctx, "a", distlock.TTL(ttl))
	if err != nil {
		return nil, err
	}
	work := outer.Context(ctx)
	inner, err := l.Lock(work, "b", distlock.TTL(time.Minute))
	if err != nil {
		return nil, err
	}
	return inner.Context(work), nil
}

// firstCheck checks the context until the process was stopped for longer than ttl, and returns the
// result of the next check. It does not yield, because the goroutine that reports the loss would
// run first.
func firstCheck(work context.Context, ttl time.Duration) string {
	for last := time.Now(); ; {
		now := time.Now()
		if work.Err() != nil { // the process may have been stopped between the two
			return "lost"
		}
		if now.Sub(last) > ttl {
			return "held"
		}
		last = now
	}
}
