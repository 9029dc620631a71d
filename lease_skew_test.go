package distlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/lab/chaos"
	"github.com/distlock/distlock/store/mem"
)

// fast is a store whose clock runs one per cent faster than the clocks of its clients.
type fast struct{ *mem.Store }

func (f fast) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	r.TTL = r.TTL * 100 / 101
	return f.Store.Acquire(ctx, r)
}

func (f fast) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	r.TTL = r.TTL * 100 / 101
	return f.Store.Renew(ctx, r)
}

func (f fast) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	for i, r := range rs {
		out[i].Behind, out[i].Err = f.Renew(ctx, r)
	}
	return out
}

// at returns a Locker on a store.
func at(t *testing.T, store driver.Store, ttl time.Duration) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(store, distlock.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A holder that is cut off stops before a rival begins, although the clock of the store is faster.
func TestLease_lost_beforeAFastStoreEndsIt(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second, 5 * time.Minute, time.Hour} {
		for _, renewals := range []time.Duration{0, 5} {
			synctest.Test(t, func(t *testing.T) {
				store := fast{mem.New()}
				link := chaos.New(store, nil)
				defer link.Close()
				holder, rival := at(t, link, ttl), at(t, store, ttl)
				lease := must(t)(holder.Lock(t.Context(), "key"))

				time.Sleep(renewals * ttl)
				if err := lease.Err(); err != nil {
					t.Fatalf("TTL %v: lost while it was renewed: %v", ttl, err)
				}
				link.Cut(chaos.All)
				next := must(t)(rival.Lock(t.Context(), "key"))
				select {
				case <-lease.Done():
				default:
					t.Errorf("TTL %v: two hold the lock, one of them until %v from now", ttl, time.Until(lease.Until()))
				}
				if !errors.Is(lease.Err(), distlock.ErrLost) {
					t.Errorf("TTL %v: the lease is %v", ttl, lease.Err())
				}
				free(t, next)
				link.Heal()
				_ = holder.Close(t.Context()) // its claim is gone
				_ = rival.Close(t.Context())
			})
		}
	}
}
