package sqlite

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Renewals and releases go before those who want something new, whoever came first; among their like the first comes first.
func TestGate_first(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		order := make(chan string, 5)
		come := func(name string, first bool) {
			go func() {
				if err := g.enter(context.Background(), time.Time{}, first); err != nil {
					t.Error(err)
				}
				order <- name
				g.leave()
			}()
			synctest.Wait() // it stands in line, or has gone in
		}
		if err := g.enter(context.Background(), time.Time{}, false); err != nil {
			t.Fatal(err)
		}
		come("acquire 1", false)
		come("acquire 2", false)
		come("renew 1", true)
		come("acquire 3", false)
		come("renew 2", true)
		g.leave()
		for _, want := range []string{"renew 1", "renew 2", "acquire 1", "acquire 2", "acquire 3"} {
			if got := <-order; got != want {
				t.Fatalf("%s went in, not %s", got, want)
			}
		}
	})
}

// Who gives up leaves the line, and keeps nobody else from going in.
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
		if err := g.enter(context.Background(), time.Time{}, false); err != nil || len(g.first)+len(g.later) > 0 {
			t.Errorf("%v, %d and %d in line", err, len(g.first), len(g.later))
		}
	})
}
