package httpratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/httpratelimit"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// down is a store that cannot be used.
type down struct{ *mem.Store }

func (down) Acquire(context.Context, driver.Request) (driver.Result, error) {
	return driver.Result{}, fmt.Errorf("%w: password hunter2", driver.ErrUnavailable)
}

// handler counts its calls behind a middleware with a limit of two in a minute.
func handler(t *testing.T, store driver.Store, o *httpratelimit.Options) (http.Handler, *int) {
	t.Helper()
	l, err := distlock.New(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	limiter, err := l.Limiter(2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	served := new(int)
	return httpratelimit.Middleware(limiter, o)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { *served++ })), served
}

func send(h http.Handler, from string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = from
	h.ServeHTTP(w, r)
	return w
}

func TestMiddleware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, served := handler(t, mem.New(), nil)
		for i, tt := range []struct {
			from  string
			after time.Duration
			code  int
			retry string
		}{
			{"192.0.2.1:1000", 0, 200, ""},
			{"192.0.2.1:1001", 29500 * time.Millisecond, 200, ""},
			{"192.0.2.1:1002", 0, 429, "31"}, // 30.5 s, rounded up
			{"192.0.2.2:1000", 0, 200, ""},
			{"[2001:db8::1]:1000", 0, 200, ""},
			{"@", 0, 200, ""}, // a socket without an address
			{"192.0.2.1:1003", 31 * time.Second, 200, ""},
			{"192.0.2.1:1004", 0, 429, "29"},
		} {
			time.Sleep(tt.after)
			w := send(h, tt.from)
			if w.Code != tt.code || w.Header().Get("Retry-After") != tt.retry {
				t.Errorf("request %d: %d, retry after %q, want %d, %q", i, w.Code, w.Header().Get("Retry-After"), tt.code, tt.retry)
			}
			if tt.code == 429 && strings.TrimSpace(w.Body.String()) != "Too Many Requests" {
				t.Errorf("body %q", w.Body)
			}
		}
		if *served != 6 {
			t.Errorf("%d were served, want 6", *served)
		}
	})
}

func TestMiddleware_options(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, served := handler(t, mem.New(), &httpratelimit.Options{
			Key:    func(r *http.Request) string { return strings.TrimPrefix(r.RemoteAddr, "free") },
			Weight: func(*http.Request) int64 { return 2 },
			Wait:   40 * time.Second,
			Refuse: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
				if !errors.Is(err, distlock.ErrNotAcquired) {
					t.Errorf("the handler did not run, and the error is %v", err)
				}
				w.WriteHeader(status)
				fmt.Fprint(w, err)
			},
		})
		for _, tt := range []struct {
			from string
			code int
			took time.Duration
		}{
			{"ann", 200, 0},
			{"free", 200, 0}, // a request without a key
			{"ann", 429, 40 * time.Second},
			{"ann", 200, 20 * time.Second},
			{"a\nb", 400, 0},
		} {
			began := time.Now()
			w := send(h, tt.from)
			if took := time.Since(began); w.Code != tt.code || took.Round(time.Second) != tt.took {
				t.Errorf("%s: %d after %v, want %d after %v", tt.from, w.Code, took, tt.code, tt.took)
			}
			if tt.code == 429 && !strings.Contains(w.Body.String(), "over its limit of 2 in 1m0s") {
				t.Errorf("body %q", w.Body)
			}
		}
		if *served != 3 {
			t.Errorf("%d were served, want 3", *served)
		}
	})
}

// TestMiddleware_badWeight checks a weight that can never pass. It is an error of the service: the
// response does not blame the client, and the log has the weight.
func TestMiddleware_badWeight(t *testing.T) {
	for _, weight := range []int64{-1, 0, 3} { // of a limit of two
		var log bytes.Buffer
		h, served := handler(t, mem.New(), &httpratelimit.Options{
			Weight:      func(*http.Request) int64 { return weight },
			PassOnError: true,
			Log:         slog.New(slog.NewTextHandler(&log, nil)),
		})
		w := send(h, "192.0.2.1:1")
		if w.Code != http.StatusInternalServerError || *served != 0 || w.Header().Get("Retry-After") != "" {
			t.Errorf("a weight of %d: %d, %d served, retry after %q", weight, w.Code, *served, w.Header().Get("Retry-After"))
		}
		if text := fmt.Sprintf("invalid weight: %d", weight); !strings.Contains(log.String(), text) || strings.Contains(w.Body.String(), text) {
			t.Errorf("the log has %q, and the response %q", &log, w.Body)
		}
	}
}

func TestMiddleware_storeFails(t *testing.T) {
	h, served := handler(t, down{mem.New()}, nil)
	w := send(h, "192.0.2.1:1")
	if w.Code != http.StatusServiceUnavailable || *served != 0 || strings.Contains(w.Body.String(), "hunter2") || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d, %d served, body %q, retry after %q", w.Code, *served, w.Body, w.Header().Get("Retry-After"))
	}
	h, served = handler(t, down{mem.New()}, &httpratelimit.Options{PassOnError: true})
	if w := send(h, "192.0.2.1:1"); w.Code != http.StatusOK || *served != 1 {
		t.Errorf("%d, %d served: it is to pass", w.Code, *served)
	}
}

func TestMiddleware_nil(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no limiter, and no panic")
		}
	}()
	httpratelimit.Middleware(nil, nil)
}
