package distlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/mem"
)

// TestDoer runs functions under every kind of lock that can.
func TestDoer(t *testing.T) {
	inBubble(t, func(t *testing.T, g *gate) {
		ctx, l := t.Context(), g.locker(t)
		slots, err := l.Semaphore(1)
		if err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		for _, tt := range []struct {
			name string
			doer distlock.Doer
			mode distlock.Mode
			rest func() (*distlock.Lease, error) // takes what is left for the doer
		}{
			{"lock", l, distlock.ModeExclusive, func() (*distlock.Lease, error) { return l.RLock(ctx, "x") }},
			{"readers", l.Readers(), distlock.ModeShared, func() (*distlock.Lease, error) { return l.Lock(ctx, "x") }},
			{"semaphore", slots, distlock.ModeCounted, func() (*distlock.Lease, error) { return slots.Acquire(ctx, "x") }},
		} {
			f := func(ctx context.Context) (distlock.Mode, error) { return distlock.FromContext(ctx).Mode(), broken }
			if v, err := distlock.DoValue(ctx, tt.doer, "x", f); v != tt.mode || !errors.Is(err, broken) || errors.Is(err, distlock.ErrNotAcquired) {
				t.Errorf("%s: DoValue: %v, %v", tt.name, v, err)
			}
			if v, ran, err := distlock.TryDoValue(ctx, tt.doer, "x", f); v != tt.mode || !ran || !errors.Is(err, broken) {
				t.Errorf("%s: TryDoValue: %v, %v, %v", tt.name, v, ran, err)
			}
			other := must(t)(tt.rest())
			if v, ran, err := distlock.TryDoValue(ctx, tt.doer, "x", f); v != "" || ran || err != nil {
				t.Errorf("%s: TryDoValue of a lock that is held: %v, %v, %v", tt.name, v, ran, err)
			}
			free(t, other)
			wants(t, tt.doer.Do(ctx, "x", nil), distlock.ErrInvalid)
			_, err := tt.doer.TryDo(ctx, "x", nil)
			wants(t, err, distlock.ErrInvalid)
			_, _, err = distlock.TryDoValue[int](ctx, tt.doer, "x", nil)
			wants(t, err, distlock.ErrNotAcquired)
			_, err = tt.doer.TryDo(ctx, "", func(context.Context) error { return nil })
			wants(t, err, distlock.ErrNotAcquired)
		}
		g.empty(t, l)
	})
}

func ExampleReaders_Do() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	err := locker.Readers().Do(ctx, "config", func(ctx context.Context) error {
		fmt.Println(distlock.FromContext(ctx).Mode())
		return nil
	})
	fmt.Println(err)
	// Output:
	// shared
	// <nil>
}

func ExampleReaders_TryDo() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	writer, _ := locker.Lock(ctx, "config")
	ran, err := locker.Readers().TryDo(ctx, "config", func(context.Context) error { return nil })
	fmt.Println(ran, err, writer.Unlock(ctx))
	// Output: false <nil> <nil>
}

func ExampleLocker_Readers() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	size, err := distlock.DoValue(ctx, locker.Readers(), "config", func(context.Context) (int, error) { return 42, nil })
	fmt.Println(size, err)
	// Output: 42 <nil>
}

func ExampleTryDoValue() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)

	size, ran, err := distlock.TryDoValue(ctx, locker, "report", func(context.Context) (int, error) { return 42, nil })
	fmt.Println(size, ran, err)
	// Output: 42 true <nil>
}

func ExampleSemaphore_TryDo() {
	ctx := context.Background()
	locker, _ := distlock.New(mem.New())
	defer locker.Close(ctx)
	uploads, _ := locker.Semaphore(2)

	ran, err := uploads.TryDo(ctx, "bucket", func(context.Context) error { return nil })
	fmt.Println(ran, err)
	// Output: true <nil>
}
