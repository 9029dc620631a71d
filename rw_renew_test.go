package distlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// A reader that could be renewed only at the last moment keeps a writer out for as long as it reads.
func TestLocker_RLock_renewedLate(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		const ttl = 3 * time.Second
		a, b := g.locker(t, distlock.TTL(ttl)), g.locker(t)
		reader := must(t)(a.RLock(t.Context(), "k"))
		writer := begin(t.Context(), b.Lock, "k").waits(t)
		g.set(func(g *gate) {
			g.renew = func(context.Context, driver.Renewal, renewFunc) (int, error) { return 0, driver.ErrUnavailable }
		})
		time.Sleep(ttl * 5 / 6) // it is trusted for nine tenths
		g.thaw()
		time.Sleep(5 * ttl)
		if err := reader.Err(); err != nil {
			t.Fatal(err)
		}
		writer.waits(t)
		free(t, reader)
		free(t, writer.now(t))
		g.empty(t, a, b)
	})
}
