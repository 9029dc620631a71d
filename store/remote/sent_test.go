package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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

// A call whose connection breaks is not sent again: its outcome is unknown, and the owner
// repeats it.
func TestStore_sent_once(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	var breaks atomic.Bool
	h := v.HTTP()
	h.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.StoreAcquireProcedure {
			v.ServeHTTP(w, r)
			return
		}
		calls.Add(1)
		if !breaks.Load() {
			v.ServeHTTP(w, r)
			return
		}
		v.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler) // the answer is lost with the connection
	})
	h.ErrorLog = discard
	l := listen(t)
	run(t, h, l)
	s := open(t, "http://"+l.Addr().String(), nil)
	attempt := func() (driver.Result, error) {
		res, err := s.Acquire(t.Context(), request("key", "x"))
		if n := calls.Swap(0); n != 1 {
			t.Errorf("the call arrived %d times", n)
		}
		return res, err
	}
	if res, err := attempt(); err != nil || !res.Fresh {
		t.Fatal(res, err)
	}
	breaks.Store(true) // the connection was used before
	if _, err := attempt(); err == nil || errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a broken connection: %v, want an unknown outcome", err)
	}
	breaks.Store(false)
	if res, err := attempt(); err != nil || !res.Granted || res.Fresh {
		t.Errorf("again: %+v, %v", res, err)
	}
}

// A list that something in between ended early is an error, and not a short list.
func TestStore_List_short(t *testing.T) {
	store := mem.New()
	v, err := server.New(t.Context(), store, &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if _, err := store.Acquire(t.Context(), request(key, "x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, missing := range []int{0, 1, 7, 60, 1000} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != api.StoreListProcedure {
				v.ServeHTTP(w, r)
				return
			}
			whole := httptest.NewRecorder()
			v.ServeHTTP(whole, r)
			for name, values := range whole.Header() {
				w.Header()[name] = values
			}
			body := whole.Body.Bytes()
			_, _ = w.Write(body[:max(0, len(body)-missing)])
		}))
		s, n := open(t, web.URL, nil), 0
		var failed error
		for _, err := range s.List(t.Context(), "") {
			if failed = err; err == nil {
				n++
			}
		}
		if (failed == nil) != (missing == 0) || failed == nil && n != 2 {
			t.Errorf("%d bytes are missing: %d claims, %v", missing, n, failed)
		}
		web.Close()
	}
}

// The answer of a server that dies in the middle of it is no answer.
func TestStore_Show_short(t *testing.T) {
	store := mem.New()
	v, err := server.New(t.Context(), store, &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Acquire(t.Context(), request("key", "x")); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.StoreShowProcedure {
			v.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		v.ServeHTTP(whole, r)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		_, _ = io.CopyN(w, whole.Body, int64(whole.Body.Len()/2))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer web.Close()
	web.Config.ErrorLog = discard
	s := open(t, web.URL, nil)
	if claims, err := s.Show(t.Context(), "key"); err == nil || len(claims) > 0 {
		t.Errorf("half of an answer: %+v, %v", claims, err)
	}
}

// A stream that broke while there was no watch is opened again, and watches work on it.
func TestStore_Watch_later(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := hosts{}, mem.New()
		h.serve(t, "a:80", store)
		s := open(t, "http://a", &remote.Options{Dial: h.dial})
		ctx, cancel := context.WithCancel(t.Context())
		if s.Watch(ctx, driver.ID{Key: "key"}) == nil {
			t.Fatal("no watch")
		}
		cancel()
		synctest.Wait()
		h["a:80"].drop()
		time.Sleep(20 * time.Second)
		if s.Watch(t.Context(), driver.ID{Key: "key"}) == nil {
			t.Error("no watch, though there is a server")
		}
	})
}
