package fence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/store/mem"
)

func invoiceKey(r *http.Request) string { return "invoice/" + r.PathValue("id") }

// service starts one instance. Its handler answers with the proof of the request.
func service(t *testing.T, reg fence.Register, opt *fence.MiddlewareOptions) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("PUT /invoice/{id}", fence.Middleware(reg, invoiceKey, opt)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := fence.FromContext(r.Context())
		io.WriteString(w, p.Proof())
	})))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// put sends a request with headers, and returns the status and the first line of the answer.
func put(t *testing.T, s *httptest.Server, id string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/invoice/"+id, nil)
	must(t, err)
	for _, h := range headers {
		r.Header.Add(fence.Header, h)
	}
	res, err := s.Client().Do(r)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, strings.TrimSpace(string(body))
}

// Two instances share a register: each knows the fences that the other has seen, also after a
// restart.
func TestMiddleware(t *testing.T) {
	each(t, func(t *testing.T, s source, style fence.Placeholders) {
		table, db := fence.Table{Placeholders: style}, s.open(t)
		must(t, table.Ensure(t.Context(), db))
		one, two := service(t, table.Register(db), nil), service(t, table.Register(s.open(t)), nil)
		want := func(s *httptest.Server, status int, id string, headers ...string) {
			t.Helper()
			if got, body := put(t, s, id, headers...); got != status {
				t.Errorf("invoice %s with %q: %d %s, want %d", id, headers, got, body, status)
			}
		}
		want(one, 200, "42", "9;exclusive;invoice%2F42")
		want(two, 200, "42", "10;exclusive;invoice%2F42")
		want(one, 409, "42", "9;exclusive;invoice%2F42")
		want(one, 200, "42", "10;exclusive;invoice%2F42")
		want(two, 409, "42", "9;exclusive;invoice%2F42")
		want(two, 200, "43", "9;exclusive;invoice%2F43")

		want(one, 428, "42")
		for _, bad := range []string{
			"", "10", "10;exclusive", "010;exclusive;invoice%2F42", "-1;exclusive;invoice%2F42", "1e3;exclusive;invoice%2F42",
			"9007199254740992;exclusive;invoice%2F42", "11;shared;invoice%2F42", "11;counted;invoice%2F42",
		} {
			want(one, 400, "42", bad)
		}
		want(one, 400, "42", "11;exclusive;invoice%2F42", "12;exclusive;invoice%2F42")
		want(one, 200, "42", "10;exclusive;invoice%2F42") // none of the refused fences was remembered

		// A client that holds another lock cannot block this one, nor the other way round.
		want(one, 400, "42", "99;exclusive;invoice%2F43")
		want(one, 400, "42", "99;exclusive;~lead%2Finvoice%2F42")
		want(one, 200, "42", "10;exclusive;invoice%2F42")
		want(one, 200, "43", "9;exclusive;invoice%2F43")

		one.Close()
		two.Close()
		must(t, db.Close())
		again := service(t, table.Register(s.open(t)), nil)
		want(again, 409, "42", "9;exclusive;invoice%2F42")
		want(again, 200, "42", "10;exclusive;invoice%2F42")
	})
}

// broken is a register whose database is unreachable.
type broken struct{}

func (broken) Advance(context.Context, fence.Lease) error {
	return errors.New("dial tcp db.internal: secret")
}

func TestMiddleware_options(t *testing.T) {
	t.Parallel()
	if status, body := put(t, service(t, broken{}, nil), "42", "9;exclusive;invoice%2F42"); status != 503 || strings.Contains(body, "secret") {
		t.Errorf("a register that fails: %d %s, want 503 without its error", status, body)
	}
	opt := &fence.MiddlewareOptions{Optional: true, Refuse: func(w http.ResponseWriter, _ *http.Request, status int, err error) {
		if status == 503 && err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(status)
	}}
	s := service(t, broken{}, opt)
	if status, body := put(t, s, "42"); status != 200 || body != (fence.Proof{}).Proof() {
		t.Errorf("optional and missing: %d %s, want 200 without a proof", status, body)
	}
	if status, _ := put(t, s, "42", "rubbish"); status != 400 {
		t.Errorf("optional and malformed: %d, want 400", status)
	}
	if status, _ := put(t, s, "42", "9;exclusive;invoice%2F42"); status != http.StatusTeapot {
		t.Errorf("an own Refuse: %d, want 418", status)
	}
	nothing := fence.Middleware(broken{}, func(*http.Request) string { return "" }, nil)(http.NotFoundHandler())
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/", nil)
	r.Header.Set(fence.Header, "9;exclusive;a")
	if nothing.ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("no lock for the request: %d, want 400", w.Code)
	}
}

func TestTransport(t *testing.T) {
	ctx := t.Context()
	locker, err := distlock.New(mem.New())
	must(t, err)
	defer locker.Close(context.WithoutCancel(ctx))
	lease, err := locker.Lock(ctx, "invoice/42")
	must(t, err)
	table, db := fence.Table{}, sqliteFile(t).open(t)
	must(t, table.Ensure(ctx, db))
	s := service(t, table.Register(db), nil)
	client := &http.Client{Transport: fence.Transport(s.Client().Transport)}

	under, err := fence.NewContext(ctx, lease)
	must(t, err)
	r, err := http.NewRequestWithContext(under, http.MethodPut, s.URL+"/invoice/42", nil)
	must(t, err)
	res, err := client.Do(r)
	must(t, err)
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 || string(body) != lease.Proof() {
		t.Errorf("%d %s, want the proof of the lease", res.StatusCode, body)
	}
	if len(r.Header) != 0 {
		t.Errorf("the transport changed the request: %v", r.Header)
	}

	r, err = http.NewRequestWithContext(ctx, http.MethodPut, s.URL+"/invoice/42", nil)
	must(t, err)
	must(t, fence.SetHeader(r.Header, lease))
	plain, err := client.Do(r)
	must(t, err)
	defer plain.Body.Close()
	if plain.StatusCode != 200 {
		t.Errorf("by SetHeader: %d", plain.StatusCode)
	}
	if _, err := fence.NewContext(ctx, fence.Proof{}); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("the zero proof: %v", err)
	}
	if err := fence.SetHeader(http.Header{}, nil); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("no lease: %v", err)
	}
	s.Client().CloseIdleConnections()
}

func TestMiddleware_nil(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a middleware that could check nothing was made")
		}
	}()
	fence.Middleware(nil, invoiceKey, nil)
}
