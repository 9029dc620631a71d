package dashboard

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts the scans of a store.
type counted struct {
	driver.Forward
	lists, shows atomic.Int64
	fail         atomic.Pointer[error]
}

func newCounted() *counted { return &counted{Forward: driver.Forward{Store: mem.New()}} }

func (s *counted) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	s.lists.Add(1)
	if err := s.fail.Load(); err != nil {
		return func(yield func(driver.Claim, error) bool) { yield(driver.Claim{}, *err) }
	}
	return driver.List(ctx, s.Store, prefix)
}

func (s *counted) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	s.shows.Add(1)
	return driver.Show(ctx, s.Store, key)
}

func ownerOf(holder, key string) string { return driver.Tag(holder + " " + key) }

// hold acquires an exclusive claim.
func hold(t *testing.T, s driver.Store, key, holder string) driver.Result {
	t.Helper()
	return acquire(t, s, driver.Request{ID: driver.ID{Key: key, Owner: ownerOf(holder, key)}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, Holder: holder})
}

// queue adds a queue entry.
func queue(t *testing.T, s driver.Store, key, holder string) driver.Result {
	t.Helper()
	return acquire(t, s, driver.Request{
		ID: driver.ID{Key: key, Owner: ownerOf(holder, key)}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute, QueueTTL: time.Minute, Holder: holder,
	})
}

func acquire(t *testing.T, s driver.Store, r driver.Request) driver.Result {
	t.Helper()
	res, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// as authorizes every request as one identity.
func as(name string, permissions ...access.Permission) func(*http.Request) (*access.Identity, error) {
	return func(*http.Request) (*access.Identity, error) {
		return &access.Identity{Name: name, Permissions: permissions}, nil
	}
}

func everything(*http.Request) (*access.Identity, error) { return access.Everything("test"), nil }

// get returns the status and the body of a page.
func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// post sends a form, as a browser does from a page of the same origin.
func post(t *testing.T, h http.Handler, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// formOf returns the fields of the form on the page of a lock, with what a user types.
func formOf(t *testing.T, h http.Handler, path, confirm, reason string) url.Values {
	t.Helper()
	_, body := get(t, h, path)
	form := url.Values{"confirm": {confirm}, "reason": {reason}}
	for _, m := range hidden.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], m[2])
	}
	return form
}

func newRequest(t *testing.T, path string) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
}
