package rueidisstore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// alone makes calls one after the other until they have a connection of their own.
func alone(t *testing.T, b *batcher) {
	t.Helper()
	for began := time.Now(); ; {
		b.mu.Lock()
		b.lastReply = time.Now().Add(time.Minute)
		b.mu.Unlock()
		if err := b.do(context.Background(), "PING"); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		open := b.solo.c != nil
		b.mu.Unlock()
		if open {
			return
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("calls that follow each other get no connection of their own")
		}
	}
}

// Calls that follow each other closely use a connection of their own, which nothing else uses.
func TestBatcher_solo(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	id := func(ctx context.Context, idle time.Duration) int64 {
		t.Helper()
		b.mu.Lock()
		later := time.Now().Add(time.Minute) // a scheduler stall changes nothing
		b.lastReply, b.solo.used = later, later.Add(-idle)
		b.mu.Unlock()
		n, err := b.send(ctx, b.c.B().Arbitrary("CLIENT", "ID").Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	shared, err := b.c.Do(t.Context(), b.c.B().Arbitrary("CLIENT", "ID").Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	alone(t, b)
	own := id(context.Background(), 0)
	if own == shared {
		t.Error("the call used the connection of all")
	}
	if got := id(t.Context(), 0); got != shared { // it would make rueidis start goroutines on the other
		t.Errorf("a call that can be cancelled used the connection %d, want %d", got, shared)
	}
	if got := id(context.Background(), time.Minute+2*soloIdle); got != shared {
		t.Errorf("the connection %d was idle for long, and was used", got)
	}
}

// A connection that the server closed fails one call, and the next call does not use it.
func TestBatcher_solo_cut(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	b := dial(t, srv)
	alone(t, b)
	own, err := b.send(context.Background(), b.c.B().Arbitrary("CLIENT", "ID").Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Do(t.Context(), "CLIENT", "KILL", "ID", strconv.FormatInt(own, 10)); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 3 {
		if b.do(context.Background(), "PING") != nil {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d calls failed, want one", failed)
	}
}

// A closed batcher leaves no connection behind.
func TestBatcher_solo_closed(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	alone(t, b)
	b.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.solo.c != nil {
		t.Error("the connection stays open")
	}
}

// A connection that nothing uses is closed.
func TestBatcher_solo_idle(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	alone(t, b)
	for began, open := time.Now(), true; open; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		open = b.solo.c != nil
		b.mu.Unlock()
		if open && time.Since(began) > 20*time.Second {
			t.Fatal("the connection stays open")
		}
	}
}
