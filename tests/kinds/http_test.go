package kinds_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distlock/distlock/adapter/httpidempotency"
	"github.com/distlock/distlock/adapter/httpratelimit"
)

// post sends an order to an instance of a service.
func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	r.Header.Set(httpidempotency.Header, "key")
	h.ServeHTTP(w, r)
	return w
}

// A repeated request is served once, by any instance.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	onEach(t, keeps, func(t *testing.T, url string) {
		var served atomic.Int64
		var during *httptest.ResponseRecorder
		var all []http.Handler
		for range processes {
			once, err := httpidempotency.Middleware(locker(t, url), time.Hour,
				&httpidempotency.Options{Scope: httpidempotency.SharedScope})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				n := served.Add(1)
				during = post(all[1], "tea") // the client is impatient
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, "order ", n)
			})))
		}
		for i, h := range all {
			w := post(h, "tea")
			if w.Code != http.StatusCreated || w.Body.String() != "order 1" ||
				(w.Header().Get(httpidempotency.Replayed) == "true") != (i > 0) {
				t.Errorf("instance %d: %d %q, %v", i, w.Code, w.Body, w.Header())
			}
		}
		if during == nil || during.Code != http.StatusConflict {
			t.Errorf("while it was served: %v", during)
		}
		if w := post(all[2], "cake"); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("another order with the same key: %d %q", w.Code, w.Body)
		}
		if n := served.Load(); n != 1 {
			t.Errorf("it was served %d times", n)
		}
	})
}

// All instances of a service share one limit.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	onEach(t, counts, func(t *testing.T, url string) {
		var served atomic.Int64
		var all []http.Handler
		for range processes {
			m, err := locker(t, url).Limiter(2, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			limit := httpratelimit.Middleware(m,
				&httpratelimit.Options{Key: func(r *http.Request) string { return r.URL.Path }})
			all = append(all, limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })))
		}
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			w := post(all[i], "")
			if retry := w.Header().Get("Retry-After"); w.Code != want ||
				(retry != "") != (want == http.StatusTooManyRequests) {
				t.Errorf("request %d: %d, retry after %q", i, w.Code, retry)
			}
		}
		if n := served.Load(); n != 2 {
			t.Errorf("%d were served", n)
		}
	})
}
