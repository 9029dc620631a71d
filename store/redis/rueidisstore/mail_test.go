package rueidisstore

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"

	"github.com/distlock/distlock/internal/testenv"
)

// post opens a mail to a server.
func post(t *testing.T, srv *testenv.RedisServer) *mail {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr}, DisableCache: true, DisableRetry: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	m := new(mail)
	m.init(c)
	t.Cleanup(func() {
		c.Close()
		m.close()
	})
	return m
}

func (m *mail) do(ctx context.Context, args ...string) error {
	return m.send(ctx, m.c.B().Arbitrary(args...).Build()).Error()
}

func TestMail_gives_each_its_answer(t *testing.T) {
	t.Parallel()
	m := post(t, testenv.Redis(t))
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 50 {
				want := strconv.Itoa(w*1000 + i)
				got, err := m.send(t.Context(), m.c.B().Arbitrary("ECHO", want).Build()).ToString()
				if got != want || err != nil {
					t.Errorf("ECHO %s: %q, %v", want, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// One of those that are sent together leaves. The others get their answers.
func TestMail_one_leaves(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	m := post(t, srv)
	if err := m.do(t.Context(), "PING"); err != nil {
		t.Fatal(err)
	}
	srv.Pause()
	limit, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	ctx, cancel := context.WithCancel(limit)
	defer cancel()
	left, stayed := make(chan error, 8), make(chan error, 8)
	for range 8 {
		go func() { left <- m.do(ctx, "INCR", "left") }()
		go func() { stayed <- m.do(limit, "INCR", "stayed") }()
	}
	time.Sleep(100 * time.Millisecond) // as many round trips as may be are under way, and the rest is held back
	cancel()
	leavers := 0
	for wait := time.After(10 * time.Second); leavers < 7; { // but for one that may read its answer itself
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
			t.Errorf("a call that was sent with one whose ctx was cancelled: %v", err)
		}
	}
}

// What undoes a call that its caller has left does not overtake it, and is sent although its own caller has left too.
func TestMail_keeps_order(t *testing.T) {
	t.Parallel()
	for range 3 {
		srv := testenv.Redis(t)
		m := post(t, srv)
		limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := m.do(limit, "PING"); err != nil { // a call without a deadline would change how rueidis waits
			t.Fatal(err)
		}
		time.Sleep(2 * fresh) // what comes next goes through another goroutine
		srv.Pause()
		ctx, leave := context.WithCancel(limit)
		done := make(chan error, 1)
		go func() { done <- m.do(ctx, "SET", "key", "taken") }()
		time.Sleep(50 * time.Millisecond)
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("SET: %v", err)
		}
		short, end := context.WithTimeout(t.Context(), 2*time.Second) // it is to be posted before it is over, on a busy machine too
		if err := m.do(short, "DEL", "key"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("DEL: %v", err)
		}
		end()
		srv.Resume()
		if n, err := m.send(t.Context(), m.c.B().Arbitrary("EXISTS", "key").Build()).AsInt64(); n != 0 || err != nil {
			t.Errorf("EXISTS: %d, %v; want what was set to be deleted", n, err)
		}
	}
}

func TestMail_closed(t *testing.T) {
	t.Parallel()
	m := post(t, testenv.Redis(t))
	m.close()
	if err := m.do(t.Context(), "PING"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a call after close: %v", err)
	}
}

// Calls that are held back when the mail is closed are answered, and then all its goroutines end, also those that had nothing to do.
func TestMail_closed_busy(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	m := post(t, srv)
	var wg sync.WaitGroup
	send := func(calls int) { // all are sent by goroutines of the mail
		m.mu.Lock()
		m.heard = time.Time{}
		want := m.out + len(m.box) + calls
		m.mu.Unlock()
		for range calls {
			wg.Go(func() {
				if err := m.do(t.Context(), "PING"); err != nil {
					t.Errorf("a call before the mail was closed: %v", err)
				}
			})
		}
		for there := 0; there < want; time.Sleep(time.Millisecond) {
			m.mu.Lock()
			there = m.out + len(m.box)
			m.mu.Unlock()
		}
	}
	srv.Pause()
	for range fewest { // each is under way by itself
		send(1)
	}
	srv.Resume()
	wg.Wait()

	srv.Pause()
	m.mu.Lock()
	m.crowd, m.least = 100, 50*time.Microsecond
	m.mu.Unlock()
	send(1)
	send(3) // less than a share: they are held back, while others have nothing to do
	for began, idle := time.Now(), 0; idle < 2; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		idle = m.idle
		m.mu.Unlock()
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%d goroutines have nothing to do, want 2 for the test to mean something", idle)
		}
	}
	closed := make(chan struct{})
	go func() {
		m.close()
		close(closed)
	}()
	for shut := false; !shut; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		shut = m.closed
		m.mu.Unlock()
	}
	srv.Resume()
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		m.posted.Broadcast() // so that the test ends
		t.Fatal("a mail that was closed while calls were held back does not end")
	}
	wg.Wait()
}

// Calls to a server far away do not wait for each other: to be sent together saves little of a long way.
func TestMail_far(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t)
	m := post(t, srv)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := m.do(ctx, "PING"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		least time.Duration
		want  int
	}{{50 * time.Microsecond, fewest}, {time.Millisecond, 10}, {time.Second, most}} {
		m.mu.Lock()
		m.least = tt.least
		m.heard = time.Time{} // each goes through another goroutine
		m.mu.Unlock()
		srv.Pause()
		var wg sync.WaitGroup
		for n := range most + 1 {
			wg.Go(func() {
				if err := m.do(ctx, "PING"); err != nil {
					t.Error(err)
				}
			})
			for want := min(n+1, tt.want); ; time.Sleep(time.Millisecond) {
				m.mu.Lock()
				under, held := m.under, len(m.box)
				m.mu.Unlock()
				if under == want && under+held == n+1 {
					break
				}
				if ctx.Err() != nil {
					t.Fatalf("%v away: of %d calls %d are under way and %d held back, want %d under way", tt.least, n+1, under, held, want)
				}
			}
		}
		srv.Resume()
		wg.Wait()
	}
}

// What a round trip takes follows the quickest at once, slower ones bit by bit, and those of many calls never.
func TestMail_learns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes but what is told
		m := new(mail)
		ok := rueidis.RedisResult{}
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		near := func(want time.Duration) {
			t.Helper()
			if m.least < want || m.least > want+want/10 {
				t.Errorf("a round trip takes %v, want %v", m.least, want)
			}
		}
		m.arrived(ago(time.Second), 5, ok)
		near(time.Second)
		m.arrived(ago(500*time.Millisecond), 5, ok)
		near(500 * time.Millisecond)
		m.arrived(ago(5*time.Second), 2, ok)
		near(500 * time.Millisecond)
		m.arrived(ago(6900*time.Millisecond), 1, ok)
		near(600 * time.Millisecond)
		heard := m.heard
		m.arrived(ago(time.Millisecond), 1, rueidis.NewErrorResult(context.Canceled))
		if near(600 * time.Millisecond); m.heard != heard {
			t.Error("an error is taken for an answer")
		}
	})
}

// The calls of a crowd go in equal shares, unless nothing is under way.
func TestMail_shares(t *testing.T) {
	for _, tt := range []struct {
		name         string
		crowd, under int
		least        time.Duration
		calls        int
		want         bool
	}{
		{"nothing is under way", 60, 0, 0, 1, true},
		{"less than a share", 60, 1, 0, 19, false},
		{"a share", 60, 1, 0, 20, true},
		{"the last share", 60, fewest - 1, 0, 20, true},
		{"all shares are under way", 60, fewest, 0, 60, false},
		{"few", crowded - 1, 1, 0, 1, true},
		{"far away", 60, fewest, time.Second, 1, true},
	} {
		m := &mail{crowd: tt.crowd, under: tt.under, least: tt.least}
		if got := m.spare(tt.calls); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A crowd is counted at once when it comes, and forgotten bit by bit when it is gone.
func TestMail_counts_the_crowd(t *testing.T) {
	m := &mail{under: 3, out: 41, box: make([]*letter, 19)}
	m.arrived(time.Now(), 20, rueidis.RedisResult{})
	if m.crowd != 60 || m.under != 2 || m.out != 21 {
		t.Errorf("a crowd of %d, %d round trips with %d calls under way; want 60, 2 and 21", m.crowd, m.under, m.out)
	}
	m.under, m.out, m.box = 1, 1, nil
	m.arrived(time.Now(), 1, rueidis.RedisResult{})
	if m.crowd != 53 {
		t.Errorf("a crowd of %d after a call alone, want 53", m.crowd)
	}
	for range 30 {
		m.under, m.out = 1, 1
		m.arrived(time.Now(), 1, rueidis.RedisResult{})
	}
	if m.crowd >= crowded {
		t.Errorf("a crowd of %d long after it has gone", m.crowd)
	}
}
