package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock"
)

// An option without an effect is refused, with its name, by every call and constructor that it is
// given to. As a default of New it is ignored. docs/kinds.md has the same table.
func TestOption_withoutEffect(t *testing.T) {
	opts := map[string]distlock.Option{
		"TTL": distlock.TTL(time.Minute), "MaxWait": distlock.MaxWait(time.Second), "MaxAttempts": distlock.MaxAttempts(2),
		"Backoff": distlock.Backoff(time.Second, time.Second), "MaxHold": distlock.MaxHold(time.Hour), "MinHold": distlock.MinHold(time.Second),
		"LockDelay": distlock.LockDelay(time.Second), "Weight": distlock.Weight(1), "NoRenewal": distlock.NoRenewal(), "Exact": distlock.Exact(),
		"Preferred": distlock.Preferred(), "RequireFence": distlock.RequireFence(), "Holder": distlock.Holder("me"),
		"Value": distlock.Value([]byte("v")), "Meta": distlock.Meta("k", "v"), "Note": distlock.Note("n"), "Observe": distlock.Observe(func(context.Context, distlock.Event) {}),
		"OnClose": distlock.OnClose(func() {}),
	}
	const waiting, keeping = "MaxWait MaxAttempts Backoff", "TTL MaxHold MinHold LockDelay NoRenewal"
	none := func(context.Context) error { return nil }
	lead := func(context.Context, *distlock.Term) error { return errCut }
	type taker = func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error
	calls := map[string]struct {
		take    taker
		refuses string
	}{
		"Lock": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return l.Do(ctx, "x", none, opts...)
		}, "Weight Exact Preferred OnClose"},
		"TryLock": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.TryDo(ctx, "y", none, opts...))
		}, waiting + " Weight Exact Preferred OnClose"},
		"Attach": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Attach(ctx, given(t, l, fmt.Sprintf("%p", l)), opts...))
		}, waiting + " TTL MinHold LockDelay Weight Exact Preferred Holder Value Meta Note OnClose"},
		"Semaphore": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Semaphore(2, opts...))
		}, "Exact Preferred OnClose"},
		"Limiter": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Limiter(2, time.Minute, opts...))
		}, keeping + " Preferred OnClose"},
		"NewOnce": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(distlock.NewOnce[int](l, time.Minute, nil, opts...))
		}, "Weight Exact Preferred OnClose"},
		"Cron": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Cron(nil, opts...))
		}, waiting + " Weight Exact Preferred OnClose"},
		"Election": {func(_ context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			return errOf(l.Election(opts...))
		}, "MaxWait MaxAttempts Weight Exact OnClose"},
		"Election.Run": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			e, err := l.Election()
			wants(t, err, nil)
			if err = e.Run(ctx, "e", lead, opts...); errors.Is(err, errCut) {
				return nil
			}
			return err
		}, "MaxWait MaxAttempts Weight Exact OnClose"},
		"TryAcquire, defaults of the semaphore": {func(ctx context.Context, l *distlock.Locker, opts ...distlock.Option) error {
			s, err := l.Semaphore(2, opts...)
			if err == nil {
				_, err = s.TryDo(ctx, "s", none)
			}
			return err
		}, "Exact Preferred OnClose"},
	}
	for call, c := range calls {
		for name, opt := range opts {
			t.Run(call+" "+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, g *gate) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					err := c.take(ctx, g.locker(t), opt)
					if !slices.Contains(strings.Fields(c.refuses), name) {
						wants(t, err, nil)
					} else if wantInvalid(t, err, "option"); name != "Note" && !strings.Contains(err.Error(), name) {
						t.Error(err)
					}
					wants(t, c.take(ctx, g.locker(t, opt)), nil)
				})
			})
		}
	}
}
