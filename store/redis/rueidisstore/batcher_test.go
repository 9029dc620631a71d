package rueidisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"

	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// dial returns a batcher for a server.
func dial(t *testing.T, srv *testenv.RedisServer) *batcher {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr},
		DisableCache: true, DisableRetry: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	b := new(batcher)
	b.init(c)
	t.Cleanup(func() {
		c.Close()
		b.close()
	})
	return b
}

func (b *batcher) do(ctx context.Context, args ...string) error { return b.reply(ctx, args...).Error() }

func (b *batcher) reply(ctx context.Context, args ...string) rueidis.RedisResult {
	return b.send(ctx, b.c.B().Arbitrary(args...).Build(), 0).res
}

func TestBatcher_answers_each_caller(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 50 {
				want := strconv.Itoa(w*1000 + i)
				got, err := b.reply(t.Context(), "ECHO", want).ToString()
				if got != want || err != nil {
					t.Errorf("ECHO %s: %q, %v", want, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// One caller of a batch leaves. The other callers get their answers.
func TestBatcher_one_caller_leaves(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	b := dial(t, srv)
	if err := b.do(t.Context(), "PING"); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	limit, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	ctx, cancel := context.WithCancel(limit)
	defer cancel()
	left, stayed := make(chan error, 8), make(chan error, 8)
	for range 8 {
		go func() { left <- b.do(ctx, "INCR", "left") }()
		go func() { stayed <- b.do(limit, "INCR", "stayed") }()
	}
	time.Sleep(100 * time.Millisecond) // the most round trips are in flight; other calls are held
	cancel()
	leavers := 0
	for wait := time.After(10 * time.Second); leavers < 8; {
		select {
		case err := <-left:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a call whose ctx was cancelled: %v", err)
			}
			leavers++
		case <-wait:
			t.Fatalf("%d of 8 calls have left", leavers)
		}
	}
	srv.Resume()
	for range 8 {
		if err := <-stayed; err != nil {
			t.Errorf("a call in one batch with a call whose ctx was cancelled: %v", err)
		}
	}
}

// A call that undoes an abandoned call does not overtake it. The undoing call is sent although its
// own caller has left too.
func TestBatcher_keeps_order(t *testing.T) {
	t.Parallel()
	for range 3 {
		srv := testenv.Redis(t)
		b := dial(t, srv)
		limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		// A call without a deadline would change how rueidis waits.
		if err := b.do(limit, "PING"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * fresh) // a worker sends the next call
		srv.Pause()
		ctx, leave := context.WithCancel(limit)
		done := make(chan error, 1)
		go func() { done <- b.do(ctx, "SET", "key", "taken") }()
		time.Sleep(50 * time.Millisecond)
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("SET: %v", err)
		}
		// The call must be queued before its deadline, also on a busy machine.
		short, end := context.WithTimeout(t.Context(), 2*time.Second)
		if err := b.do(short, "DEL", "key"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("DEL: %v", err)
		}
		end()
		srv.Resume()
		if n, err := b.reply(t.Context(), "EXISTS", "key").AsInt64(); n != 0 ||
			err != nil {
			t.Errorf("EXISTS: %d, %v; want the key deleted", n, err)
		}
	}
}

func TestBatcher_closed(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	b.close()
	if err := b.do(t.Context(), "PING"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a call after close: %v", err)
	}
}

// Calls that are held back when the batcher is closed are answered. Then all workers end, idle ones
// included.
func TestBatcher_closed_busy(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	b := dial(t, srv)
	var wg sync.WaitGroup
	send := func(calls int) { // workers send all of them
		b.mu.Lock()
		b.lastReply = time.Time{}
		want := b.carried + len(b.queue) + calls
		b.mu.Unlock()
		for range calls {
			wg.Go(func() {
				if err := b.do(t.Context(), "PING"); err != nil {
					t.Errorf("a call before the batcher was closed: %v", err)
				}
			})
		}
		for there := 0; there < want; time.Sleep(time.Millisecond) {
			b.mu.Lock()
			there = b.carried + len(b.queue)
			b.mu.Unlock()
		}
	}
	srv.Pause()
	for range minTrips { // each in a round trip of its own
		send(1)
	}
	srv.Resume()
	wg.Wait()

	srv.Pause()
	b.mu.Lock()
	b.load, b.rtt = 100, 50*time.Microsecond
	b.mu.Unlock()
	send(1)
	send(3) // less than a share: they are held back, while other workers are idle
	for began, idle := time.Now(), 0; idle < 2; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		idle = b.idle
		b.mu.Unlock()
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d workers are idle, want 2 for the test to mean something", idle)
		}
	}
	closed := make(chan struct{})
	go func() {
		b.close()
		close(closed)
	}()
	for shut := false; !shut; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		shut = b.closed
		b.mu.Unlock()
	}
	srv.Resume()
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		b.wake.Broadcast() // so that the test ends
		t.Fatal("a batcher that was closed while calls were held back does not end")
	}
	wg.Wait()
}

// Calls to a distant server do not wait for each other: a batch saves little of a long round trip.
func TestBatcher_far(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	b := dial(t, srv)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.do(ctx, "PING"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		rtt  time.Duration
		want int
	}{{50 * time.Microsecond, minTrips}, {time.Millisecond, 10}, {time.Second, maxTrips}} {
		b.mu.Lock()
		b.rtt = tt.rtt
		b.lastReply = time.Time{} // workers send all calls
		b.mu.Unlock()
		srv.Pause()
		var wg sync.WaitGroup
		for n := range maxTrips + 1 {
			wg.Go(func() {
				if err := b.do(ctx, "PING"); err != nil {
					t.Error(err)
				}
			})
			for want := min(n+1, tt.want); ; time.Sleep(time.Millisecond) {
				b.mu.Lock()
				trips, held := b.trips, len(b.queue)
				b.mu.Unlock()
				if trips == want && trips+held == n+1 {
					break
				}
				if ctx.Err() != nil {
					t.Fatalf("rtt %v: of %d calls %d are in flight and %d held back, want %d in flight",
						tt.rtt, n+1, trips, held, want)
				}
			}
		}
		srv.Resume()
		wg.Wait()
	}
}

// The rtt follows the quickest round trip at once, slower ones step by step, and those of many
// calls never.
func TestBatcher_learns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time stands still
		b := new(batcher)
		ok := rueidis.RedisResult{}
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		near := func(want time.Duration) {
			t.Helper()
			if b.rtt < want || b.rtt > want+want/10 {
				t.Errorf("a round trip takes %v, want %v", b.rtt, want)
			}
		}
		b.finished(ago(time.Second), 5, ok)
		near(time.Second)
		b.finished(ago(500*time.Millisecond), 5, ok)
		near(500 * time.Millisecond)
		b.finished(ago(5*time.Second), 2, ok)
		near(500 * time.Millisecond)
		b.finished(ago(6900*time.Millisecond), 1, ok)
		near(600 * time.Millisecond)
		heard := b.lastReply
		b.finished(ago(time.Millisecond), 1, rueidis.NewErrorResult(context.Canceled))
		if near(600 * time.Millisecond); b.lastReply != heard {
			t.Error("an error is taken for an answer")
		}
	})
}

// Under load, calls go in equal shares, unless nothing is in flight.
func TestBatcher_shares(t *testing.T) {
	for _, tt := range []struct {
		name        string
		load, trips int
		rtt         time.Duration
		calls       int
		want        bool
	}{
		{"nothing is in flight", 60, 0, 0, 1, true},
		{"less than a share", 60, 1, 0, 19, false},
		{"a share", 60, 1, 0, 20, true},
		{"the last share", 60, minTrips - 1, 0, 20, true},
		{"all shares are in flight", 60, minTrips, 0, 60, false},
		{"few", busyLoad - 1, 1, 0, 1, true},
		{"far away", 60, minTrips, time.Second, 1, true},
	} {
		b := &batcher{load: tt.load, trips: tt.trips, rtt: tt.rtt}
		if got := b.mayStart(tt.calls); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// Calls of one script are a command, up to the limit. The calls that undo others are in the last
// ones, and a call that is undone is by itself.
func TestBatcher_groups(t *testing.T) {
	type part struct {
		merge uint8
		calls int
	}
	parts := func(calls int, merge func(i int) uint8, owner func(i int) int) (singles int, parts []part) {
		var batch []*call
		for i := range calls {
			cmd := rueidis.Builder{}.Arbitrary("EVALSHA", "script", "1", "key", strconv.Itoa(owner(i)))
			batch = append(batch, &call{cmd: cmd.Build(), merge: merge(i)})
		}
		sent := map[*call]bool{}
		for _, g := range group(batch) {
			if g[0].merge == 0 && len(g) == 1 && parts == nil {
				singles++
			} else {
				parts = append(parts, part{g[0].merge, len(g)})
			}
			for _, c := range g {
				sent[c] = true
			}
		}
		if len(sent) != calls {
			t.Errorf("%d of %d calls are in groups", len(sent), calls)
		}
		return singles, parts
	}
	each := func(i int) int { return i }
	mixed := func(i int) uint8 { return uint8(2 - i%3) }
	if n, got := parts(90, mixed, each); n != 30 || !slices.Equal(got, []part{{1, 30}, {2, 30}}) {
		t.Errorf("%d by themselves, then %v", n, got)
	}
	if n, got := parts(90, mixed, func(i int) int { return i / 9 }); n != 60 || !slices.Equal(got, []part{{2, 30}}) {
		t.Errorf("calls that are undone: %d by themselves, then %v", n, got)
	}
	last := func(int) uint8 { return 2 }
	if n, got := parts(2*maxMerged+4, last, each); n != 0 || !slices.Equal(got, []part{{2, maxMerged}, {2, maxMerged}, {2, 4}}) {
		t.Errorf("%d by themselves, then %v", n, got)
	}
}

// A recorder keeps the calls of a store.
type recorder struct {
	*client
	calls []redis.Call
}

func (r *recorder) Run(ctx context.Context, c redis.Call) (string, error) {
	kept := c
	kept.Keys, kept.Args = slices.Clone(c.Keys), slices.Clone(c.Args)
	r.calls = append(r.calls, kept)
	return r.client.Run(ctx, c)
}

// A claim is attempted again by its owner and released, in one batch with the same for another
// name. Nothing is left.
func TestBatcher_undone(t *testing.T) {
	t.Parallel()
	b := dial(t, testenv.Redis(t))
	r := &recorder{client: newClient(b.c)}
	s, err := redis.New(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	var ids []driver.ID
	for _, key := range []string{"a", "b"} {
		id := driver.ID{Key: key, Owner: "owner of " + key}
		ids = append(ids, id)
		res, err := s.Acquire(t.Context(), driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute})
		if err != nil || !res.Granted {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	for _, id := range ids {
		if err := s.Release(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	var batch []*call
	for _, c := range r.calls {
		if c.Merge == 0 { // the server did not know the script
			continue
		}
		batch = append(batch, &call{cmd: r.command(b.c.B(), c), merge: c.Merge})
		if c.Merge == 1 {
			if _, err := r.client.Run(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(batch) != 4 || batch[0].merge != 1 || batch[3].merge != 2 {
		t.Fatalf("%d calls that may be merged", len(batch))
	}
	roundTrip(t.Context(), b.c, batch)
	for _, id := range ids {
		if claims, err := s.Show(t.Context(), id.Key); len(claims) > 0 || err != nil {
			t.Errorf("%s: %+v, %v", id.Key, claims, err)
		}
	}
}

// The load rises at once, and falls step by step.
func TestBatcher_counts_the_load(t *testing.T) {
	b := &batcher{trips: 3, carried: 41, queue: make([]*call, 19)}
	b.finished(time.Now(), 20, rueidis.RedisResult{})
	if b.load != 60 || b.trips != 2 || b.carried != 21 {
		t.Errorf("load %d, %d round trips with %d calls in flight; want 60, 2 and 21",
			b.load, b.trips, b.carried)
	}
	b.trips, b.carried, b.queue = 1, 1, nil
	b.finished(time.Now(), 1, rueidis.RedisResult{})
	if b.load != 53 {
		t.Errorf("load %d after a single call, want 53", b.load)
	}
	for range 30 {
		b.trips, b.carried = 1, 1
		b.finished(time.Now(), 1, rueidis.RedisResult{})
	}
	if b.load >= busyLoad {
		t.Errorf("load %d long after the many calls, want less than %d", b.load, busyLoad)
	}
}
