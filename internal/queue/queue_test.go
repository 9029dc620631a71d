package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/keeper"
	"github.com/distlock/distlock/internal/queue"
	"github.com/distlock/distlock/store/mem"
)

// slow is a store whose grants arrive late.
type slow struct {
	driver.Store
	by time.Duration
}

func (s slow) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	res, err := s.Store.Acquire(ctx, r)
	time.Sleep(s.by)
	return res, err
}

// caller makes plain errors, and counts events by their type.
type caller struct {
	mu     sync.Mutex
	events map[string]int
}

func newCaller() *caller { return &caller{events: map[string]int{}} }

func (c *caller) Event(_ context.Context, e queue.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[e.Type]++
}

func (c *caller) Waits(context.Context, *queue.Waiter) (ended func() <-chan struct{}) { return nil }
func (c *caller) Held(queue.Held) error                                               { return errors.New("held") }
func (c *caller) Failed(_ string, _ bool, err error) error                            { return err }
func (c *caller) Lost(_ uint64, cause error) error                                    { return cause }
func (c *caller) TooHeavy(int64, int64) error                                         { return errors.New("too heavy") }

func call(m *queue.Manager, c *caller, ttl, wait time.Duration) *queue.Call {
	return &queue.Call{
		Request: driver.Request{ID: driver.ID{Key: "k"}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl},
		Terms:   keeper.Terms{TTL: ttl}, Wait: wait, MinPause: time.Millisecond, MaxPause: time.Second,
		Began: m.Clock().Awake(), Caller: c, Observed: true, Origin: context.Background(),
	}
}

// TestManager_Acquire_late shows that a grant which arrives after its trust is released, and is no
// lease.
func TestManager_Acquire_late(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		m := queue.New(slow{store, time.Second})
		c := newCaller()
		if _, err := m.Acquire(t.Context(), call(m, c, time.Second, 0)); !errors.Is(err, queue.ErrTooLate) {
			t.Errorf("got %v, want %v", err, queue.ErrTooLate)
		}
		if n := m.Keys(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
		if c.events[queue.Withdrawn] != 1 || c.events[queue.Refused] != 1 {
			t.Errorf("events: %v", c.events)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestManager_handOff shows that a claim passes from call to call with one attempt, and that each
// lease has a fence of its own.
func TestManager_handOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := queue.New(mem.New())
		c := newCaller()
		first, err := m.Acquire(t.Context(), call(m, c, time.Minute, 0))
		if err != nil {
			t.Fatal(err)
		}
		var second *queue.Lease
		go func() { second, err = m.Acquire(t.Context(), call(m, c, time.Minute, -1)) }()
		synctest.Wait()
		if !first.Wanted() {
			t.Error("a call waits, and the lease is not wanted")
		}
		if err := first.End(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err != nil || second.Fence() != first.Fence()+1 || second.ID() != first.ID() {
			t.Errorf("got %v, %v: want the next fence of the same claim", second, err)
		}
		if c.events[queue.Attempted] != 1 || c.events[queue.HandedOff] != 1 || c.events[queue.Granted] != 2 {
			t.Errorf("events: %v", c.events)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := second.Err(); err != queue.ErrReleased { //nolint:errorlint // this very one
			t.Errorf("after Close: %v", err)
		}
	})
}
