package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/remote"
)

// All watches of a process share one stream.
func TestStore_Watch_one_stream(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	var streams atomic.Int64
	h := v.HTTP()
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.StoreWatchProcedure {
			streams.Add(1)
		}
		v.ServeHTTP(w, r)
	})
	l := listen(t)
	run(t, h, l)
	s := open(t, "http://"+l.Addr().String(), nil)
	for i := range 100 {
		if s.Watch(t.Context(), driver.ID{Key: fmt.Sprint(i), Owner: "x"}) == nil {
			t.Fatal("no watch")
		}
	}
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams", n)
	}
}

// Without HTTP/2, and behind a proxy that passes nothing on, there is no watch, and only the first
// one takes a second.
func TestStore_Watch_none(t *testing.T) {
	for name, change := range map[string]func(h *http.Server){
		"HTTP/1.1": func(h *http.Server) {
			h.Protocols.SetHTTP2(false)
			h.Protocols.SetUnencryptedHTTP2(false)
		},
		"silence": func(h *http.Server) {
			next := h.Handler
			h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == api.StoreWatchProcedure {
					<-r.Context().Done()
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
			if err != nil {
				t.Fatal(err)
			}
			h, l := v.HTTP(), listen(t)
			h.ErrorLog = discard
			change(h)
			run(t, h, l)
			s := open(t, "http://"+l.Addr().String(), nil)
			began := time.Now()
			if s.Watch(t.Context(), driver.ID{Key: "key"}) != nil {
				t.Fatal("a watch")
			}
			first := time.Since(began)
			for range 100 {
				if s.Watch(t.Context(), driver.ID{Key: "key"}) != nil {
					t.Fatal("a watch")
				}
			}
			if took := time.Since(began); took > first+10*time.Second {
				t.Errorf("the first watch took %v, and all of them %v", first, took)
			}
			if res, err := s.Acquire(t.Context(), request("key", "x")); err != nil || !res.Granted {
				t.Error(res, err)
			}
		})
	}
}

// A watch that was active is woken when its stream breaks, and works again on the next one.
func TestStore_Watch_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := hosts{}, mem.New()
		h.serve(t, "a:80", store)
		s := open(t, "http://a", &remote.Options{Dial: h.dial})
		ctx, r := t.Context(), request("key", "x")
		if _, err := s.Acquire(ctx, r); err != nil {
			t.Fatal(err)
		}
		wakes := s.Watch(ctx, driver.ID{Key: "key"})
		h["a:80"].drop()
		<-wakes
		if s.Watch(ctx, driver.ID{Key: "key"}) != nil {
			t.Error("a watch without a stream")
		}
		time.Sleep(20 * time.Second) // the stream is open again
		for len(wakes) > 0 {
			<-wakes
		}
		if err := store.Release(ctx, r.ID); err != nil {
			t.Fatal(err)
		}
		<-wakes
		if s.Watch(ctx, driver.ID{Key: "key"}) == nil {
			t.Error("no watch, though there is a stream")
		}
	})
}

// watched is a store that counts its watches, and whose attempts may hang.
type watched struct {
	driver.Forward
	watches atomic.Int64
	hangs   chan struct{} // if not nil, attempts hang until it is closed
}

func (s *watched) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	s.watches.Add(1)
	return s.Forward.Watch(ctx, id)
}

func (s *watched) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if s.hangs != nil {
		<-s.hangs
		return driver.Result{}, errors.New("it hung")
	}
	return s.Forward.Acquire(ctx, r)
}

// Watches follow the attempts to the next server: a store may wake only the watchers of the server
// that attempted.
func TestStore_Watch_follows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := hosts{}, mem.New()
		hangs := make(chan struct{})
		a, b := &watched{Forward: driver.Forward{Store: store}, hangs: hangs}, &watched{Forward: driver.Forward{Store: store}}
		h.serve(t, "a:80", a)
		h.serve(t, "b:80", b)
		s := open(t, "http://a,b", &remote.Options{Dial: h.dial})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		wakes := s.Watch(t.Context(), driver.ID{Key: "key"})
		if wakes == nil || a.watches.Load() != 1 || b.watches.Load() != 0 {
			t.Fatal("no watch at the first server")
		}
		_, err := s.Acquire(ctx, request("key", "x"))
		close(hangs)
		if err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Acquire at a server that hangs: %v", err)
		}
		select {
		case <-wakes:
		case <-time.After(10 * time.Second):
			t.Error("the watch was not woken")
		}
		time.Sleep(10 * time.Second)
		if b.watches.Load() != 1 {
			t.Error("the watch did not follow")
		}
		if res, err := s.Acquire(t.Context(), request("key", "x")); err != nil || !res.Granted {
			t.Errorf("at the next server: %+v, %v", res, err)
		}
	})
}

// A stream without a message stays open.
func TestStore_Watch_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := hosts{}, mem.New()
		one := &watched{Forward: driver.Forward{Store: store}}
		h.serve(t, "a:80", one)
		s := open(t, "http://a", &remote.Options{Dial: h.dial})
		wakes := s.Watch(t.Context(), driver.ID{Key: "key"})
		time.Sleep(time.Hour)
		if n := one.watches.Load(); n != 1 || len(wakes) != 0 {
			t.Errorf("%d watches and %d messages in an hour, want 1 and none", n, len(wakes))
		}
	})
}

// Watches leave a server that is about to end.
func TestStore_Watch_drained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := hosts{}, mem.New()
		b := &watched{Forward: driver.Forward{Store: store}}
		a := h.serve(t, "a:80", store)
		h.serve(t, "b:80", b)
		s := open(t, "http://a,b", &remote.Options{Dial: h.dial})
		wakes := s.Watch(t.Context(), driver.ID{Key: "key"})
		a.Drain()
		select {
		case <-wakes:
		case <-time.After(time.Second):
			t.Error("the watch was not woken")
		}
		time.Sleep(time.Second)
		if n := b.watches.Load(); n != 1 {
			t.Errorf("%d watches at the other server, want 1", n)
		}
	})
}
