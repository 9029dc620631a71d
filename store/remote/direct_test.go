package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// counting is a listener that counts its connections, and can close them.
type counting struct {
	net.Listener
	made atomic.Int64
	mu   sync.Mutex
	all  []net.Conn
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.made.Add(1)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, c)
	}
	return c, err
}

func (l *counting) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		_ = c.Close()
	}
	l.all = nil
}

// Calls one after the other use one connection, and renewals and releases another. A connection
// that the server has closed meanwhile is not used again, and no call fails.
func TestStore_connections(t *testing.T) {
	l := &counting{Listener: listen(t)}
	serve(t, mem.New(), l)
	s := open(t, "http://"+l.Addr().String(), nil)
	before := l.made.Load()
	for i := range 20 {
		if i == 10 {
			l.drop()
			time.Sleep(10 * time.Millisecond) // the end arrives
		}
		if res, err := s.Acquire(t.Context(), request("key", "x")); err != nil || !res.Granted {
			t.Fatalf("call %d: %+v, %v", i, res, err)
		}
		if err := s.Release(t.Context(), request("key", "x").ID); err != nil {
			t.Fatalf("release %d: %v", i, err)
		}
	}
	if n := l.made.Load() - before; n != 4 {
		t.Errorf("%d connections, want 2 before they were closed, and 2 after", n)
	}
}

// slow is a store whose renewals wait for a gate.
type slow struct {
	driver.Forward
	gate <-chan struct{}
}

func (s *slow) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	<-s.gate
	return s.Store.Renew(ctx, r)
}

func (s *slow) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	<-s.gate
	return s.Forward.RenewAll(ctx, rs)
}

// More calls at the same time than connections wait for one, and end with their ctx.
func TestStore_connections_bounded(t *testing.T) {
	const most, n = 128, 200
	gate := make(chan struct{})
	l := &counting{Listener: listen(t)}
	serve(t, &slow{driver.Forward{Store: mem.New()}, gate}, l)
	s := open(t, "http://"+l.Addr().String(), nil)
	before := l.made.Load()
	renew := func(ctx context.Context) error {
		_, err := s.Renew(ctx, driver.Renewal{ID: request("key", "x").ID, TTL: time.Minute})
		return err
	}
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			if err := renew(t.Context()); !errors.Is(err, driver.ErrNotHeld) {
				t.Error(err)
			}
		})
	}
	for l.made.Load()-before < most {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := renew(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call without a connection: %v", err)
	}
	close(gate)
	calls.Wait()
	if made := l.made.Load() - before; made != most {
		t.Errorf("%d connections for %d calls", made, n)
	}
}

// Many calls at the same time share messages, and each has its own answer.
func TestStore_together(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	var messages atomic.Int64
	h, l := v.HTTP(), listen(t)
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		messages.Add(1)
		time.Sleep(time.Millisecond) // others come meanwhile
		v.ServeHTTP(w, r)
	})
	run(t, h, l)
	s := open(t, "http://"+l.Addr().String(), nil)
	const goroutines, rounds = 64, 5
	var calls sync.WaitGroup
	var granted atomic.Int64
	for i := range goroutines {
		calls.Go(func() {
			for range rounds {
				r := request(fmt.Sprint("key ", i/2), fmt.Sprint("owner ", i)) // of two goroutines
				res, err := s.Acquire(t.Context(), r)
				released := s.Release(t.Context(), r.ID)
				switch {
				case err != nil:
					t.Error(err)
				case !res.Granted && res.Blocker.Key != r.Key:
					t.Errorf("%s is held up by %+v", r.Key, res.Blocker)
				case res.Granted && released != nil, !res.Granted && !errors.Is(released, driver.ErrNotHeld):
					t.Errorf("granted %v, and the release says %v", res.Granted, released)
				case res.Granted:
					granted.Add(1)
				}
			}
		})
	}
	calls.Wait()
	const all = 2 * goroutines * rounds
	if n := messages.Load(); n > all*9/10 || granted.Load() == 0 {
		t.Errorf("%d messages for %d calls, %d granted", n, all, granted.Load())
	}
}
