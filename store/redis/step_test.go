package redis_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
)

// between makes a call, and runs rival after the first script of the call: before the second, or
// after the call if there is none.
func between(t *testing.T, s capped, call func() error, rival func()) {
	t.Helper()
	var scripts atomic.Int64
	second, on, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s.server.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		if strings.HasPrefix(cmd, "EVAL") && scripts.Add(1) == 2 {
			close(second)
			<-on
		}
		return false
	})
	go func() {
		err := call()
		scripts.Add(2) // scripts of the rival do not count
		done <- err
	}()
	var err error
	select {
	case <-second:
		func() {
			defer close(on) // also if the rival ends the test
			rival()
		}()
		err = <-done
	case err = <-done:
		rival()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An operation compares the owner, makes its change and learns the fence in one step: at no moment
// could a rival's claim be taken for its own.
func TestStore_virtual_oneStep(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for name, play := range map[string]func(t *testing.T, s capped, a, b driver.Request){
		"acquire": func(t *testing.T, s capped, a, b driver.Request) {
			var first, second driver.Result
			between(t, s, func() (err error) {
				first, err = s.Acquire(t.Context(), a)
				return err
			}, func() {
				time.Sleep(ttl)
				second = grant(t, s, b)
			})
			if second.Fence < first.Fence+driver.Span {
				t.Errorf("fence %d, of the next holder %d", first.Fence, second.Fence)
			}
		},
		"renew": func(t *testing.T, s capped, a, b driver.Request) {
			grant(t, s, a)
			between(t, s, func() error {
				_, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: ttl})
				return err
			}, func() {
				time.Sleep(ttl)
				grant(t, s, b)
			})
			time.Sleep(b.TTL - ttl/2)
			refuse(t, s, exclusive(b.Key))
		},
		"release": func(t *testing.T, s capped, a, b driver.Request) {
			grant(t, s, a)
			between(t, s, func() error { return s.Release(t.Context(), a.ID) }, func() {
				time.Sleep(ttl)
				grant(t, s, b)
			})
			refuse(t, s, exclusive(b.Key))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtual().Open(t).(capped)
				warm := exclusive("warm") // a script that the server does not know is sent twice
				grant(t, s, warm)
				claims(t, s, warm.Key)
				if _, err := s.Renew(t.Context(), driver.Renewal{ID: warm.ID, TTL: ttl}); err != nil {
					t.Fatal(err)
				}
				if err := s.Release(t.Context(), warm.ID); err != nil {
					t.Fatal(err)
				}
				a, b := exclusive("key"), exclusive("key")
				a.TTL, b.TTL = ttl, 3*ttl
				play(t, s, a, b)
			})
		})
	}
}

// The fast paths, for claims with a TTL of minutes, compare the owner as the slow path does.
func TestStore_virtual_stale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtual().Open(t).(capped)
		a, b, w := exclusive("key"), exclusive("key"), exclusive("key")
		w.QueueTTL = time.Minute
		grant(t, s, a)
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		grant(t, s, b)
		for range 2 { // the second time with a queue
			if err := s.Release(t.Context(), a.ID); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("a late release: %v, want ErrNotHeld", err)
			}
			if _, err := s.Renew(t.Context(), driver.Renewal{ID: a.ID, TTL: time.Second}); !errors.Is(err, driver.ErrNotHeld) {
				t.Errorf("a late renewal: %v, want ErrNotHeld", err)
			}
			refuse(t, s, w)
		}
		time.Sleep(b.TTL - time.Millisecond)
		refuse(t, s, w)
		time.Sleep(2 * time.Millisecond)
		grant(t, s, w)
	})
}

// The fences of a key rise, whatever happens between two grants.
func TestStore_virtual_fences(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(t *testing.T, s capped, a, b driver.Request){
		"forgotten": func(_ *testing.T, s capped, _, _ driver.Request) {
			time.Sleep(time.Millisecond) // a server takes longer to start
			s.server.FlushAll()
		},
		"handed on": func(t *testing.T, s capped, a, b driver.Request) {
			b.QueueTTL = time.Minute
			refuse(t, s, b)
			if err := s.Release(t.Context(), a.ID); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := virtual().Open(t).(capped)
				a, b := exclusive("key"), exclusive("key")
				first := grant(t, s, a).Fence
				pass(t, s, a, b)
				if next := grant(t, s, b).Fence; next < first+driver.Span {
					t.Errorf("fence %d, and then %d", first, next)
				}
			})
		})
	}
}

// A reader that is renewed just before its end keeps a writer out for a whole TTL after the
// renewal.
func TestStore_virtual_lateReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := virtual().Open(t).(capped)
		r, w := shared("key"), exclusive("key")
		grant(t, s, r)
		for range 3 {
			time.Sleep(r.TTL - time.Millisecond)
			if _, err := s.Renew(t.Context(), driver.Renewal{ID: r.ID, TTL: r.TTL}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(r.TTL - time.Millisecond)
		refuse(t, s, w)
		time.Sleep(2 * time.Millisecond)
		grant(t, s, w)
	})
}

// A release without an answer is reported neither as done nor as not held.
func TestStore_lostRelease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		proxy := testenv.Proxy(t, srv.Addr)
		s := open(t, login{addr: proxy.Addr})
		other, r := exclusive("other"), exclusive("key")
		grant(t, s, r)
		grant(t, s, other)
		if err := s.Release(t.Context(), other.ID); err != nil { // the script is known
			t.Fatal(err)
		}
		eaten := proxy.EatReply([]byte(r.Owner))
		err := s.Release(t.Context(), r.ID)
		<-eaten
		if err == nil || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrUnavailable) ||
			errors.Is(err, driver.ErrInvalid) {
			t.Fatalf("Release: %v; want an unknown outcome", err)
		}
		if err := s.Release(t.Context(), r.ID); !errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("Release, after one without an answer: %v, want ErrNotHeld", err)
		}
	})
}
