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

// A process that is stopped for longer than the TTL of an outer lease sees the loss in its first
// look at the context of an inner lease that is still held.
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
					t.Fatalf("the holder says %q", line)
				}
				h.Pause()
				time.Sleep(ttl + ttl/2)
				h.Resume()
				if line := h.Line(); line != "lost" {
					t.Errorf("the first look after the pause says %q", line)
				}
			}
		})
	}
}

// playNested takes an outer lease and a longer inner one for each line, and says what the first
// look after a pause says.
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
		fmt.Println(firstLook(work, ttl))
		_ = l.Close(ctx)
	}
	return 0
}

func nest(ctx context.Context, l *distlock.Locker, how string, ttl time.Duration) (context.Context, error) {
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

// firstLook looks until the process was stopped for longer than ttl, and returns what the next look
// says. It does not yield: the goroutine that reports the loss would come first.
func firstLook(work context.Context, ttl time.Duration) string {
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
