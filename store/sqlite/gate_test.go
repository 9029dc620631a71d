package sqlite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Renewals and releases go before acquires, in any order of arrival. Calls of one kind go in order
// of arrival.
func TestGate_first(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		order := make(chan string, 5)
		arrive := func(name string, first bool) {
			go func() {
				if err := g.enter(context.Background(), time.Time{}, first); err != nil {
					t.Error(err)
				}
				order <- name
				g.leave()
			}()
			synctest.Wait() // the call waits at the gate, or has entered
		}
		if err := g.enter(context.Background(), time.Time{}, false); err != nil {
			t.Fatal(err)
		}
		arrive("acquire 1", false)
		arrive("acquire 2", false)
		arrive("renew 1", true)
		arrive("acquire 3", false)
		arrive("renew 2", true)
		g.leave()
		for _, want := range []string{"renew 1", "renew 2", "acquire 1", "acquire 2", "acquire 3"} {
			if got := <-order; got != want {
				t.Fatalf("%s entered, not %s", got, want)
			}
		}
	})
}

// A call that gives up leaves the queue, and blocks no other call.
func TestGate_gives_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if err := g.enter(context.Background(), time.Time{}, false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		if err := g.enter(ctx, time.Time{}, true); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := g.enter(context.Background(), time.Now().Add(time.Second), false); !errors.Is(err, errBusy) {
			t.Errorf("got %v", err)
		}
		g.leave()
		if err := g.enter(context.Background(), time.Time{}, false); err != nil ||
			len(g.first)+len(g.later) > 0 {
			t.Errorf("%v, %d and %d in the queues", err, len(g.first), len(g.later))
		}
	})
}
