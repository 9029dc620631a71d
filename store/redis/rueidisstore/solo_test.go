package rueidisstore

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

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
		open := len(b.solos.all) > 0
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
		b.lastReply = later
		for _, one := range b.solos.all {
			one.used = later.Add(-idle)
		}
		b.mu.Unlock()
		n, err := b.reply(ctx, "CLIENT", "ID").AsInt64()
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
	own, err := b.reply(context.Background(), "CLIENT", "ID").AsInt64()
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if !time.Now().Before(b.solos.next) {
		t.Error("another connection is opened at once: a server that closes them gets one after the other")
	}
}

// Each of the round trips that may be in flight gets a connection of its own, and no more are
// opened.
func TestBatcher_solos(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	many := func() int { // the connections, all of them in use
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, one := range b.solos.all {
			one.taken = true
		}
		return len(b.solos.all)
	}
	for began := time.Now(); many() < minTrips; alone(t, b) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%d connections, want %d", many(), minTrips)
		}
	}
	for range 4 * soloAfter {
		if err := b.do(context.Background(), "PING"); err != nil {
			t.Fatal(err)
		}
	}
	if n := many(); n != minTrips {
		t.Errorf("%d connections, want %d", n, minTrips)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.solos.opening {
		t.Error("one more connection is being opened")
	}
	for _, one := range b.solos.all { // else they are not closed
		one.taken = false
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
	if len(b.solos.all) > 0 {
		t.Error("the connection stays open")
	}
}

// A connection that nothing uses is closed, and calls that follow each other later open another at
// once.
func TestBatcher_solo_idle(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	alone(t, b)
	for began, open := time.Now(), true; open; time.Sleep(10 * time.Millisecond) {
		b.mu.Lock()
		open = len(b.solos.all) > 0
		b.mu.Unlock()
		if open && time.Since(began) > 20*time.Second {
			t.Fatal("the connection stays open")
		}
	}
	b.mu.Lock()
	next := b.solos.next
	b.mu.Unlock()
	if !next.IsZero() {
		t.Errorf("another is opened at %v, want at once", next)
	}
	alone(t, b)
}

// While the application uses all connections of the pool, the connection is opened once, and the
// pool loses none.
func TestBatcher_solo_fullPool(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	const pool = 4
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr},
		DisableCache: true, ForceSingleClient: true, BlockingPoolSize: pool})
	if err != nil {
		t.Fatal(err)
	}
	b := new(batcher)
	b.init(c)
	t.Cleanup(func() {
		c.Close()
		b.close()
	})
	var release []func()
	use := func() {
		d, end := c.Dedicate()
		_ = d.Do(context.Background(), d.B().Ping().Build())
		release = append(release, end)
	}
	for range pool {
		use()
	}
	for range pool { // each time as if five seconds had passed
		b.mu.Lock()
		b.lastReply = time.Now().Add(time.Minute)
		b.solos.waiting, b.solos.next = soloAfter, time.Time{}
		b.mu.Unlock()
		if err := b.do(context.Background(), "PING"); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range release {
		end()
	}
	time.Sleep(2 * soloIdle) // the connection is opened and, since nothing uses it, closed
	again := make(chan struct{})
	go func() {
		defer close(again)
		for range pool {
			use()
		}
	}()
	select {
	case <-again:
	case <-time.After(10 * time.Second):
		t.Error("the application does not get its connections again")
	}
}

// A call returns soon after its ctx is cancelled, also if the server hangs and has just answered
// another call: on the connection of all, and on the connection of its own.
func TestBatcher_cancelled(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"shared": false, "own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.Redis(t)
			b := dial(t, srv)
			if own {
				alone(t, b)
			} else if err := b.do(context.Background(), "PING"); err != nil {
				t.Fatal(err)
			}
			srv.Pause()
			defer srv.Resume()
			limit, end := context.WithTimeout(t.Context(), 20*time.Second)
			defer end()
			ctx, cancel := context.WithCancel(limit)
			b.mu.Lock()
			later := time.Now().Add(time.Minute) // a scheduler stall changes nothing
			b.lastReply = later
			for _, one := range b.solos.all {
				one.used = later
			}
			b.mu.Unlock()
			done := make(chan error, 1)
			go func() { done <- b.do(ctx, "PING") }()
			time.Sleep(50 * time.Millisecond)
			if b.mu.Lock(); b.solos.taken() > 0 != own {
				t.Errorf("%d connections of their own are in use", b.solos.taken())
			}
			b.mu.Unlock()
			cancel()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			case <-time.After(5 * time.Second):
				t.Error("the call has not returned 5 s after its ctx was cancelled")
			}
		})
	}
}
