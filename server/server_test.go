package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// altered is a store that changes some answers of another.
type altered struct {
	driver.Forward
	features func(*driver.Features)
	acquire  func(ctx context.Context) error
	inspect  func() (driver.Info, error)
}

func alter() *altered { return &altered{Forward: driver.Forward{Store: mem.New()}} }

func (s *altered) Features() driver.Features {
	f := s.Store.Features()
	if s.features != nil {
		s.features(&f)
	}
	return f
}

func (s *altered) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if s.acquire != nil {
		if err := s.acquire(ctx); err != nil {
			return driver.Result{}, err
		}
	}
	return s.Store.Acquire(ctx, r)
}

func (s *altered) Inspect(ctx context.Context) (driver.Info, error) {
	if s.inspect != nil {
		return s.inspect()
	}
	return s.Forward.Inspect(ctx)
}

// A store on which one owner must not use two servers is refused, and the error names the reason.
func TestNew_refuses(t *testing.T) {
	lost := errors.New("no connection")
	for reason, change := range map[string]func(s *altered){
		"lacks fencing tokens":  func(s *altered) { s.features = func(f *driver.Features) { f.Fence = false } },
		"lacks a queue":         func(s *altered) { s.features = func(f *driver.Features) { f.Queue = false } },
		"lacks values":          func(s *altered) { s.features = func(f *driver.Features) { f.Value = false } },
		"lacks an end":          func(s *altered) { s.features = func(f *driver.Features) { f.Expiry = false } },
		"outlive a process":     func(s *altered) { s.features = func(f *driver.Features) { f.Detached = false } },
		"may undo a grant":      func(s *altered) { s.features = func(f *driver.Features) { f.AnyServer = false } },
		"does not know":         func(s *altered) { s.inspect = func() (driver.Info, error) { return driver.Info{}, nil } },
		"no connection":         func(s *altered) { s.inspect = func() (driver.Info, error) { return driver.Info{}, lost } },
		"cannot inspect itself": func(s *altered) { s.Forward.Store = struct{ driver.Store }{mem.New()} },
	} {
		s := alter()
		change(s)
		_, err := server.New(t.Context(), s, &server.Options{Anonymous: access.Everything("test")})
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%v, want %q", err, reason)
		}
		if reason != "no connection" && reason != "cannot inspect itself" && !errors.Is(err, server.ErrRefused) {
			t.Errorf("%v is not ErrRefused", err)
		}
	}
}

// serve returns a client without any knowledge of the store.
func serve(t *testing.T, s driver.Store) (*server.Server, *httptest.Server, api.StoreClient) {
	t.Helper()
	v, err := server.New(t.Context(), s, &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config = v.HTTP()
	web.Start()
	t.Cleanup(web.Close)
	return v, web, api.NewStoreClient(web.Client(), web.URL)
}

func request(owner string) driver.Request {
	return driver.Request{ID: driver.ID{Key: "key", Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
}

// A server that drains refuses new claims, definitely, and renews and releases those that there
// are.
func TestServer_Drain(t *testing.T) {
	v, _, c := serve(t, mem.New())
	ctx, r := t.Context(), request("a")
	if m, err := c.Acquire(ctx, message.Request(r)); err != nil || !m.GetGranted() {
		t.Fatal(m, err)
	}
	v.Drain()
	_, err := c.Acquire(ctx, message.Request(request("b")))
	if got := message.ReasonOf(err); got.GetKind() != api.Reason_KIND_DRAINING || !errors.Is(message.ErrorOf(got), driver.ErrUnavailable) {
		t.Errorf("Acquire: %v", err)
	}
	renewal := message.Renewal(driver.Renewal{ID: r.ID, TTL: time.Minute})
	if m, err := c.Renew(ctx, &api.RenewRequest{Renewals: []*api.Renewal{renewal}}); err != nil || m.GetRenewed()[0].GetReason() != nil {
		t.Errorf("Renew: %v, %v", m, err)
	}
	if _, err := c.Release(ctx, &api.ReleaseRequest{Id: message.ID(r.ID)}); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// A call is bounded by 5 s, and by the deadline of its caller. Its outcome is unknown then.
func TestServer_limit(t *testing.T) {
	s := alter()
	left := make(chan time.Duration, 1)
	s.acquire = func(ctx context.Context) error {
		end, _ := ctx.Deadline()
		left <- time.Until(end)
		return context.DeadlineExceeded
	}
	_, _, c := serve(t, s)
	_, err := c.Acquire(t.Context(), message.Request(request("a")))
	if got := <-left; got > 5*time.Second {
		t.Errorf("the store has %v", got)
	}
	if r := message.ReasonOf(err); r.GetKind() != api.Reason_KIND_UNKNOWN {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, _ = c.Acquire(ctx, message.Request(request("a")))
	if got := <-left; got > 2*time.Second {
		t.Errorf("the store has %v, its caller 2s", got)
	}
}

// Every answer has the identity of the store, and a call for another store changes nothing.
func TestServer_identity(t *testing.T) {
	store := mem.New()
	v, web, _ := serve(t, store)
	for _, want := range []string{"", v.Identity(), "0123456789abcdef"} {
		body := strings.NewReader(`{"id":{"key":"a2V5","owner":"YQ=="},"weight":"1","limit":"1","ttlNs":"60000000000"}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+api.StoreAcquireProcedure, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(message.StoreHeader, want)
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get(message.StoreHeader); got != v.Identity() {
			t.Errorf("the identity is %q, want %q", got, v.Identity())
		}
		claims, err := store.Show(t.Context(), "key")
		if done, right := len(claims) == 1, want == "" || want == v.Identity(); err != nil || done != right || (resp.StatusCode == http.StatusOK) != right {
			t.Errorf("a call for the store %q: %s, and %d claims, %v", want, resp.Status, len(claims), err)
		}
		if len(claims) == 1 {
			_ = store.Release(t.Context(), driver.ID{Key: "key", Owner: "a"})
		}
	}
}

// A store that lost its data has another identity, and the server notices.
func TestServer_identity_changes(t *testing.T) {
	s := alter()
	n := 0
	s.inspect = func() (driver.Info, error) { n++; return driver.Info{Identity: fmt.Sprint("store ", n)}, nil }
	synctest.Test(t, func(t *testing.T) {
		v, err := server.New(t.Context(), s, &server.Options{Anonymous: access.Everything("test")})
		if err != nil {
			t.Fatal(err)
		}
		first := v.Identity()
		call := func() {
			v.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/", nil))
			synctest.Wait()
		}
		if call(); v.Identity() != first {
			t.Error("the identity changed at once")
		}
		time.Sleep(11 * time.Second)
		if call(); v.Identity() == first {
			t.Error("the server has the identity that the store had before")
		}
	})
}

// Too many renewals in one call are refused as a whole.
func TestServer_renewals(t *testing.T) {
	_, _, c := serve(t, mem.New())
	m := &api.RenewRequest{}
	for range 501 {
		m.Renewals = append(m.Renewals, &api.Renewal{})
	}
	if _, err := c.Renew(t.Context(), m); message.ReasonOf(err).GetKind() != api.Reason_KIND_INVALID {
		t.Errorf("error %v", err)
	}
}

// A message that is too large is refused before it is decoded.
func TestServer_large(t *testing.T) {
	_, _, c := serve(t, mem.New())
	r := request("a")
	r.Value = make([]byte, 300<<10)
	if _, err := c.Acquire(t.Context(), message.Request(r)); err == nil {
		t.Error("300 KiB were accepted")
	}
}

// A page in a browser, and a proxy, do not become clients of this host.
func TestServer_Local(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, header, value string
		ok                  bool
	}{
		{"localhost:7520", "", "", true},
		{"127.0.0.1:7520", "", "", true},
		{"[::1]:7520", "", "", true},
		{"localhost", "", "", true},
		{"locks.example:7520", "", "", false}, // a name of an attacker, for 127.0.0.1
		{"", "", "", false},
		{"localhost", "X-Forwarded-For", "10.0.0.1", false},
		{"localhost", "Forwarded", "for=10.0.0.1", false},
		{"localhost", "Via", "1.1 proxy", false},
		{"localhost", "Sec-Fetch-Site", "cross-site", false},
		{"localhost", "Origin", "http://evil.example", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.StoreFeaturesProcedure, strings.NewReader("{}"))
		r.Host = tt.host
		r.Header.Set("Content-Type", "application/json")
		if tt.header != "" {
			r.Header.Set(tt.header, tt.value)
		}
		w := httptest.NewRecorder()
		v.Local().ServeHTTP(w, r)
		if (w.Code == http.StatusOK) != tt.ok || !tt.ok && !strings.Contains(w.Body.String(), "distlock.v1.Reason") {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
}
