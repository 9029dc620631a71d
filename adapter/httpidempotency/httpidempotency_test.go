package httpidempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/adapter/httpidempotency"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shop counts the orders that its handler handles.
type shop struct {
	http.Handler
	store  *flaky
	orders int
	serve  http.HandlerFunc // handles an order; nil: responds 201 with its number
	log    bytes.Buffer
}

// flaky is a store that fails on command.
type flaky struct {
	*mem.Store
	acquire, renew error
}

func (f *flaky) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if f.acquire != nil {
		return driver.Result{}, f.acquire
	}
	return f.Store.Acquire(ctx, r)
}

func (f *flaky) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	if f.renew != nil {
		return 0, f.renew
	}
	return f.Store.Renew(ctx, r)
}

func locker(t *testing.T, s driver.Store) *distlock.Locker {
	t.Helper()
	l, err := distlock.New(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

func open(t *testing.T, o *httpidempotency.Options) *shop {
	t.Helper()
	s := &shop{store: &flaky{Store: mem.New()}}
	if o == nil {
		o = &httpidempotency.Options{}
	}
	if o.Scope == nil {
		o.Scope = func(r *http.Request) string { // the user, whatever the token is
			user, _, _ := strings.Cut(r.Header.Get("Authorization"), ":")
			return user
		}
	}
	o.Log = slog.New(slog.NewTextHandler(&s.log, nil))
	once, err := httpidempotency.Middleware(locker(t, s.store), time.Hour, o)
	if err != nil {
		t.Fatal(err)
	}
	s.Handler = once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.orders++
		if s.serve != nil {
			s.serve(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", fmt.Sprintf("/orders/%d", s.orders))
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("Location", "too late")
		fmt.Fprintf(w, "order %d: %s", s.orders, body)
	}))
	return s
}

// order returns a request. Its headers are pairs of name and value.
func order(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func keyed(body, key string) *http.Request { return order(body, httpidempotency.Header, key) }

// wants sends a request and checks the response.
func (s *shop) wants(t *testing.T, r *http.Request, status int, body string, orders int) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != status || !strings.Contains(w.Body.String(), body) || s.orders != orders {
		t.Errorf("%d %q, and %d orders were served; want %d %q and %d", w.Code, w.Body, s.orders, status, body, orders)
	}
	return w
}

func TestMiddleware_replays(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	first := s.wants(t, keyed("tea", "k1"), 201, "order 1: tea", 1)
	if first.Header().Get(httpidempotency.Replayed) != "" {
		t.Error("the first response is marked as stored")
	}
	for _, key := range []string{"k1", `"k1"`} {
		again := s.wants(t, keyed("tea", key), 201, "order 1: tea", 1)
		if again.Header().Get("Location") != "/orders/1" || again.Header().Get(httpidempotency.Replayed) != "true" {
			t.Errorf("the headers are %v", again.Header())
		}
	}
	s.wants(t, keyed("tea", "k2"), 201, "order 2: tea", 2)
	s.wants(t, order("tea", httpidempotency.Header, "k1", "Authorization", "ann:token1"), 201, "order 3: tea", 3) // the key of another client
	s.wants(t, order("tea", httpidempotency.Header, "k1", "Authorization", "ann:token2"), 201, "order 3: tea", 3) // with a new token
	if s.log.Len() > 0 {
		t.Error(s.log.String())
	}
}

func TestMiddleware_otherRequest(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.wants(t, keyed("tea", "k"), 201, "", 1)
	s.wants(t, keyed("cake", "k"), 422, "another request", 1)
	r := keyed("tea", "k")
	r.Method = http.MethodPut
	s.wants(t, r, 422, "", 1)
	r = keyed("tea", "k")
	r.URL.RawQuery = "express"
	s.wants(t, r, 422, "", 1)
	s.wants(t, keyed("tea", "k"), 201, "order 1", 1)
}

// parsed returns a request with a form that another handler has read. Its file is on disk.
func parsed(t *testing.T, amount, file, content string) *http.Request {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	_ = w.WriteField("amount", amount)
	part, _ := w.CreateFormFile("invoice", file)
	_, _ = io.WriteString(part, content)
	_ = w.Close()
	r := order(body.String(), httpidempotency.Header, "files", "Content-Type", w.FormDataContentType())
	if err := r.ParseMultipartForm(1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.MultipartForm.RemoveAll() })
	return r
}

// TestMiddleware_otherForm checks a form that a handler around the middleware has parsed: it is no
// longer in the body.
func TestMiddleware_otherForm(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.serve = func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "paid ", r.PostFormValue("amount")) }
	form := func(body string) *http.Request {
		r := order(body, httpidempotency.Header, "form", "Content-Type", "application/x-www-form-urlencoded")
		_ = r.FormValue("amount")
		return r
	}
	s.wants(t, form("amount=10&to=ann"), 200, "paid 10", 1)
	s.wants(t, form("amount=9999&to=ann"), 422, "another request", 1)
	s.wants(t, form(""), 422, "another request", 1)
	s.wants(t, form("amount=10&to=ann"), 200, "paid 10", 1)

	s.wants(t, parsed(t, "10", "a.pdf", "of tea"), 200, "paid 10", 2)
	s.wants(t, parsed(t, "20", "a.pdf", "of tea"), 422, "another request", 2)
	s.wants(t, parsed(t, "10", "b.pdf", "of tea"), 422, "another request", 2)
	s.wants(t, parsed(t, "10", "a.pdf", "of cake"), 422, "another request", 2)
	s.wants(t, parsed(t, "10", "a.pdf", "of tea"), 200, "paid 10", 2)

	gone := parsed(t, "10", "a.pdf", "of tea")
	if err := gone.MultipartForm.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	w := s.wants(t, gone, 500, "cannot be read", 2)
	if strings.Contains(w.Body.String(), "multipart") || !strings.Contains(s.log.String(), "multipart") { // the name of the file on disk
		t.Errorf("the response has %q, the log %q", w.Body, &s.log)
	}
}

// TestMiddleware_headers checks that the values of headers are bytes: an old client may use another
// encoding than UTF-8.
func TestMiddleware_headers(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Location"] = []string{"/caf\xe9", "/café", ""}
		w.Header()["Date"] = nil // the server sets none
	}
	first := s.wants(t, keyed("tea", "k"), 200, "", 1)
	again := s.wants(t, keyed("tea", "k"), 200, "", 1)
	first.Header().Set(httpidempotency.Replayed, "true")
	if got, want := again.Header(), first.Header(); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the repetition has the headers %q, want %q", got, want)
	}
}

func TestMiddleware_inFlight(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.serve = func(http.ResponseWriter, *http.Request) {
		s.wants(t, keyed("tea", "k"), 409, "being handled", 1)
		s.wants(t, keyed("cake", "k"), 409, "", 1)
	}
	s.wants(t, keyed("tea", "k"), 200, "", 1)
	s.wants(t, keyed("tea", "k"), 200, "", 1)
}

func TestMiddleware_refuses(t *testing.T) {
	t.Parallel()
	s := open(t, &httpidempotency.Options{MaxBody: 10})
	s.wants(t, order("tea"), 400, "missing", 0)
	s.wants(t, order("tea", httpidempotency.Header, "a", httpidempotency.Header, "b"), 400, "one word", 0)
	for _, key := range []string{"", `""`, "two words", "é", strings.Repeat("k", 256)} {
		s.wants(t, keyed("tea", key), 400, "one word", 0)
	}
	s.wants(t, keyed("0123456789a", "k"), 413, "too large", 0)
	s.wants(t, keyed("0123456789", strings.Repeat("k", 255)), 201, "", 1)
	r := keyed("", "k")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("a"), broken{}))
	s.wants(t, r, 400, "cut", 1)
	r = order("")
	r.Method = http.MethodGet
	s.wants(t, r, 201, "", 2)

	s = open(t, &httpidempotency.Options{Optional: true, Refuse: func(w http.ResponseWriter, _ *http.Request, _ int, err error) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, errors.Is(err, httpidempotency.ErrKey))
	}})
	s.wants(t, order("tea"), 201, "", 1)
	s.wants(t, order("tea"), 201, "", 2)
	s.wants(t, keyed("tea", ""), 418, "true", 2)
}

// TestMiddleware_anyBody checks that the largest MaxBody is no limit, and that it does not
// overflow.
func TestMiddleware_anyBody(t *testing.T) {
	t.Parallel()
	s := open(t, &httpidempotency.Options{MaxBody: math.MaxInt64})
	s.wants(t, keyed("tea", "k"), 201, "tea", 1)
	s.wants(t, keyed("milk", "k"), 422, "", 1)
	negative := &httpidempotency.Options{MaxBody: -1, Scope: httpidempotency.SharedScope}
	if _, err := httpidempotency.Middleware(locker(t, s.store), time.Hour, negative); err == nil {
		t.Error("a limit below zero is accepted")
	}
}

// TestMiddleware_refusals checks that Refuse gets a different error for each refusal.
func TestMiddleware_refusals(t *testing.T) {
	t.Parallel()
	var why error
	s := open(t, &httpidempotency.Options{MaxBody: 10, Refuse: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
		w.WriteHeader(status)
		why = err
	}})
	refused := func(r *http.Request, status int, want error) {
		t.Helper()
		why = nil
		s.wants(t, r, status, "", s.orders)
		if !errors.Is(why, want) {
			t.Errorf("refused because %v, want %v", why, want)
		}
	}
	refused(order("tea"), 400, httpidempotency.ErrMissing)
	refused(keyed("tea", ""), 400, httpidempotency.ErrKey)
	refused(keyed("0123456789a", "k"), 413, httpidempotency.ErrBody)
	s.serve = func(http.ResponseWriter, *http.Request) { refused(keyed("tea", "k"), 409, httpidempotency.ErrInFlight) }
	s.wants(t, keyed("tea", "k"), 200, "", 1)
	refused(keyed("cake", "k"), 422, httpidempotency.ErrReused)
	s.store.acquire = driver.ErrUnavailable
	refused(keyed("tea", "l"), 503, httpidempotency.ErrStore)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut") }

func TestMiddleware_notStored(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.serve = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oh", http.StatusBadGateway) }
	s.wants(t, keyed("a", "k"), 502, "oh", 1)
	s.wants(t, keyed("a", "k"), 502, "oh", 2)
	if s.log.Len() > 0 {
		t.Error(s.log.String())
	}
	s.serve = func(w http.ResponseWriter, _ *http.Request) {
		for range 70 {
			_, _ = w.Write(make([]byte, 1<<10))
		}
	}
	for i := range 2 {
		if r := s.wants(t, keyed("a", "k"), 200, "", 3+i); r.Header().Get(httpidempotency.Replayed) != "" {
			t.Error("it was stored")
		}
	}
	if !strings.Contains(s.log.String(), "64 KiB") {
		t.Errorf("the log says %q", &s.log)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.serve = func(http.ResponseWriter, *http.Request) { cancel() } // the client is gone, and the handler gives up
	s.wants(t, keyed("a", "k").WithContext(ctx), 200, "", 5)
	s.serve = nil
	s.wants(t, keyed("a", "k"), 201, "", 6)
}

func TestMiddleware_panic(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.serve = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler { //nolint:errorlint // this value itself
				t.Error("the panic is gone")
			}
		}()
		s.ServeHTTP(httptest.NewRecorder(), keyed("a", "k"))
	}()
	s.serve = nil
	s.wants(t, keyed("a", "k"), 201, "", 2)
}

func TestMiddleware_storeFails(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.store.acquire = fmt.Errorf("%w: secret host", driver.ErrUnavailable)
	r := s.wants(t, keyed("a", "k"), 503, "unknown whether", 0)
	if b := r.Body.Bytes(); bytes.Contains(b, []byte("secret")) || !strings.Contains(s.log.String(), "secret host") {
		t.Errorf("the response has %q, the log %q", b, &s.log)
	}
	s.store.acquire, s.store.renew = nil, driver.ErrNotHeld
	s.wants(t, keyed("a", "k"), 201, "order 1", 1) // it was handled, so the client gets the response
	if !strings.Contains(s.log.String(), "not recorded") {
		t.Errorf("the log says %q", &s.log)
	}
}

func TestMiddleware_lease(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.serve = func(_ http.ResponseWriter, r *http.Request) {
		if lease := distlock.FromContext(r.Context()); lease == nil || lease.Fence() == 0 {
			t.Error("the request has no lease")
		}
	}
	s.wants(t, keyed("a", "k"), 200, "", 1)
}

func TestMiddleware_unsupported(t *testing.T) {
	t.Parallel()
	l := locker(t, mem.New())
	var wrong *distlock.ArgumentError
	if _, err := httpidempotency.Middleware(l, 0, nil); !errors.As(err, &wrong) || wrong.What != "keep" {
		t.Error(err)
	}
}

// TestMiddleware_scope checks that Scope must be set: without it the owner of a key is unknown.
func TestMiddleware_scope(t *testing.T) {
	t.Parallel()
	l := locker(t, mem.New())
	for _, o := range []*httpidempotency.Options{nil, {}} {
		if _, err := httpidempotency.Middleware(l, time.Hour, o); !errors.Is(err, distlock.ErrInvalid) || !strings.Contains(err.Error(), "Scope") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	s := open(t, &httpidempotency.Options{Scope: httpidempotency.SharedScope})
	s.wants(t, order("tea", httpidempotency.Header, "k", "Authorization", "ann"), 201, "order 1: tea", 1)
	s.wants(t, order("tea", httpidempotency.Header, "k", "Authorization", "bob"), 201, "order 1: tea", 1)
}

// TestMiddleware_host checks that the same key at two hosts of one service is two requests, and
// that the case of the host does not matter.
func TestMiddleware_host(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	at := func(host string) *http.Request {
		r := keyed("tea", "k")
		r.Host = host
		return r
	}
	s.wants(t, at("tenant1.example"), 201, "order 1: tea", 1)
	s.wants(t, at("Tenant1.example"), 201, "order 1: tea", 1)
	s.wants(t, at("tenant2.example"), 422, "", 1)
}

// TestMiddleware_passing checks that a response that suggests a retry is not the response to that
// retry.
func TestMiddleware_passing(t *testing.T) {
	t.Parallel()
	for status, remembered := range map[int]bool{200: true, 400: true, 401: false, 402: true, 403: false, 404: true, 408: false, 409: false, 410: true, 422: true, 425: false, 429: false, 500: false, 503: false} {
		s := open(t, nil)
		s.serve = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		s.wants(t, keyed("tea", "k"), status, "", 1)
		s.serve = nil
		if remembered {
			s.wants(t, keyed("tea", "k"), status, "", 1)
		} else {
			s.wants(t, keyed("tea", "k"), 201, "order 2: tea", 2)
		}
	}
}
