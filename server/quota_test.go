package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// byHeader is an Authenticator for tests: a client is who it says it is.
func byHeader(r *http.Request) (*access.Identity, error) {
	name := r.Header.Get("Test-Identity")
	if name == "" {
		return nil, nil
	}
	return access.Everything(name), nil
}

// A member is a client with an identity.
type member struct {
	api.StoreClient
	name string // and the owner of its claims
}

// memberOf returns a client of a server with a name.
func memberOf(web *httptest.Server, name string) member {
	as := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Test-Identity", name)
			return next(ctx, r)
		}
	})
	return member{api.NewStoreClient(web.Client(), web.URL, connect.WithInterceptors(as)), name}
}

func (m member) acquire(t *testing.T, key string, ttl time.Duration) error {
	t.Helper()
	_, err := m.Acquire(t.Context(), message.Request(driver.Request{
		ID: driver.ID{Key: key, Owner: m.name}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl,
	}))
	return err
}

func (m member) renew(t *testing.T, key string) error {
	t.Helper()
	one := message.Renewal(driver.Renewal{ID: driver.ID{Key: key, Owner: m.name}, TTL: time.Minute})
	out, err := m.Renew(t.Context(), &api.RenewRequest{Renewals: []*api.Renewal{one}})
	if err == nil && out.GetRenewed()[0].GetReason() != nil {
		err = errors.New(out.GetRenewed()[0].GetReason().GetText())
	}
	return err
}

func (m member) release(t *testing.T, key string) error {
	t.Helper()
	_, err := m.Release(t.Context(), &api.ReleaseRequest{Id: message.ID(driver.ID{Key: key, Owner: m.name})})
	return err
}

// isLimited reports whether an error is a definite refusal because of a limit, with the time after
// which the client may come again.
func isLimited(err error) bool {
	var answer *connect.Error
	return message.ReasonOf(err).GetKind() == api.Reason_KIND_LIMITED && errors.Is(message.ErrorOf(message.ReasonOf(err)), driver.ErrUnavailable) &&
		errors.As(err, &answer) && answer.Code() == connect.CodeResourceExhausted && answer.Meta().Get("Retry-After") == "1"
}

// limited starts a server with limits.
func limited(t *testing.T, s driver.Store, l server.Limits) (*server.Server, *httptest.Server) {
	t.Helper()
	v, err := server.New(t.Context(), s, &server.Options{Authenticate: []server.Authenticator{byHeader}, Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config = v.HTTP()
	web.Start()
	t.Cleanup(web.Close)
	return v, web
}

// A caller over its rate is refused, for itself alone, and renews and releases all the same.
func TestServer_Limits_rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := server.New(t.Context(), mem.New(), &server.Options{
			Authenticate: []server.Authenticator{byHeader}, Limits: server.Limits{Calls: 10, Keeps: 5},
		})
		if err != nil {
			t.Fatal(err)
		}
		send := func(name, procedure string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, procedure, strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Test-Identity", name)
			w := httptest.NewRecorder()
			v.ServeHTTP(w, r)
			if limited := w.Code == http.StatusTooManyRequests; limited != (w.Header().Get("Retry-After") == "1") || limited != strings.Contains(w.Body.String(), "KIND_LIMITED") {
				t.Errorf("%d, %v, %s", w.Code, w.Header(), w.Body)
			}
			return w.Code
		}
		passed := func(n int, name, procedure string) (count int) {
			for range n {
				if send(name, procedure) != http.StatusTooManyRequests {
					count++
				}
			}
			return count
		}
		if n := passed(100, "a", api.StoreFeaturesProcedure); n != 10 {
			t.Errorf("%d calls passed, want 10", n)
		}
		if n := passed(4, "a", api.StoreRenewProcedure) + passed(4, "a", api.StoreReleaseProcedure); n != 5 {
			t.Errorf("%d renewals and releases passed, want 5", n)
		}
		if n := passed(10, "b", api.StoreFeaturesProcedure); n != 10 {
			t.Errorf("%d calls of another caller passed, want 10", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n := passed(100, "a", api.StoreFeaturesProcedure); n != 5 {
			t.Errorf("%d calls passed after half a second, want 5", n)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil)
		r.Header.Set("Test-Identity", "a")
		w := httptest.NewRecorder()
		if v.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("/livez: %d", w.Code)
		}
	})
}

// Calls of one identity that hang in the store leave room for those of others, and renewals and
// releases of all pass at once.
func TestServer_Limits_inFlight(t *testing.T) {
	s := alter()
	begun, finish := make(chan struct{}, 100), make(chan struct{})
	s.acquire = func(context.Context) error {
		begun <- struct{}{}
		<-finish
		return nil
	}
	held := driver.Request{ID: driver.ID{Key: "held", Owner: "a"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
	if _, err := s.Store.Acquire(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	_, web := limited(t, s, server.Limits{InFlight: 4})
	a, b := memberOf(web, "a"), memberOf(web, "b")
	var calls sync.WaitGroup
	results := make(chan error, 100)
	for i := range 8 {
		calls.Go(func() { results <- a.acquire(t, fmt.Sprint("a", i), time.Minute) })
	}
	<-begun
	<-begun
	if err := a.renew(t, "held"); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	if err := a.release(t, "held"); err != nil {
		t.Errorf("a release: %v", err)
	}
	calls.Go(func() { results <- b.acquire(t, "b", time.Minute) })
	<-begun // the call of b is in the store, while six of a wait
	if n := len(begun); n != 0 {
		t.Errorf("%d more calls of one identity are in the store than its share", n)
	}
	close(finish)
	calls.Wait()
	close(results)
	for err := range results {
		if err != nil {
			t.Error(err)
		}
	}
}

// A call that waits for a slot until its end has changed nothing, and the caller knows.
func TestServer_Limits_busy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := alter()
		finish := make(chan struct{})
		s.acquire = func(context.Context) error { <-finish; return nil }
		v, err := server.New(t.Context(), s, &server.Options{
			Authenticate: []server.Authenticator{byHeader}, Limits: server.Limits{InFlight: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		acquire := func(key string) *httptest.ResponseRecorder {
			body := fmt.Sprintf(`{"id":{"key":%q,"owner":"YQ=="},"weight":"1","limit":"1","ttlNs":"60000000000"}`, key)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.StoreAcquireProcedure, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Test-Identity", "a")
			w := httptest.NewRecorder()
			v.ServeHTTP(w, r)
			return w
		}
		go acquire("YQ==")
		synctest.Wait()
		if w := acquire("Yg=="); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "KIND_LIMITED") {
			t.Errorf("a call behind one that hangs: %d %s", w.Code, w.Body)
		}
		close(finish)
		synctest.Wait()
		if claims, err := s.Show(t.Context(), "b"); err != nil || len(claims) > 0 {
			t.Errorf("%v, %v", claims, err)
		}
	})
}

// A caller holds so many claims and no more. A claim counts until its end: by a release, or by its
// TTL.
func TestServer_Limits_claims(t *testing.T) {
	_, web := limited(t, mem.New(), server.Limits{Claims: 3, Records: 2})
	a, b := memberOf(web, "a"), memberOf(web, "b")
	for i := range 3 {
		if err := a.acquire(t, fmt.Sprint("a", i), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.acquire(t, "a3", time.Minute); !isLimited(err) {
		t.Errorf("a fourth claim: %v", err)
	}
	if err := a.acquire(t, "a0", time.Minute); err != nil {
		t.Errorf("a claim that it has: %v", err)
	}
	if err := b.acquire(t, "b", time.Minute); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if err := a.acquire(t, "b", time.Minute); !isLimited(err) {
		t.Errorf("a claim of another: %v", err)
	}
	if err := a.release(t, "a0"); err != nil {
		t.Fatal(err)
	}
	if err := a.acquire(t, "b", time.Minute); err != nil {
		t.Errorf("a claim that is refused: %v", err)
	}
	if err := a.acquire(t, "a3", 300*time.Millisecond); err != nil {
		t.Errorf("a claim after a refusal and a release: %v", err)
	}
	// Passes of a rate limit, and results, are counted for themselves.
	for i := range 2 {
		if err := a.acquire(t, fmt.Sprint("~rate/", i), time.Minute); err != nil {
			t.Errorf("a pass: %v", err)
		}
	}
	if err := a.acquire(t, "~rate/2", time.Minute); !isLimited(err) {
		t.Errorf("a third pass: %v", err)
	}
	err := errors.New("none")
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		err = a.acquire(t, "a4", time.Minute)
	}
	if err != nil {
		t.Errorf("a claim after the end of a TTL: %v", err)
	}
}

// A claim whose outcome is unknown counts until it has certainly ended.
func TestServer_Limits_unknown(t *testing.T) {
	s := alter()
	var fail error
	s.acquire = func(context.Context) error { return fail }
	_, web := limited(t, s, server.Limits{Claims: 1})
	a := memberOf(web, "a")
	fail = driver.ErrUnavailable
	if err := a.acquire(t, "a", time.Minute); err == nil {
		t.Fatal("granted")
	}
	fail = errors.New("no answer")
	if err := a.acquire(t, "b", time.Minute); err == nil || isLimited(err) {
		t.Fatalf("after a call that changed nothing: %v", err)
	}
	fail = nil
	if err := a.acquire(t, "c", time.Minute); !isLimited(err) {
		t.Errorf("after a call that may have taken effect: %v", err)
	}
	if err := a.acquire(t, "b", time.Minute); err != nil {
		t.Errorf("the same call again: %v", err)
	}
}

// If there are too many connections, those without a request go first.
func TestServer_Limits_connections(t *testing.T) {
	_, web := limited(t, mem.New(), server.Limits{Conns: 8})
	var silent []net.Conn
	for range 20 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	if err := memberOf(web, "a").acquire(t, "a", time.Minute); err != nil {
		t.Errorf("a client next to silent ones: %v", err)
	}
	// The first ones were closed for the later ones.
	_ = silent[0].SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := silent[0].Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Errorf("the oldest connection is still there: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// So many calls of a caller wait for a lock and no more. The others are refused at once.
func TestServer_Limits_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := server.New(t.Context(), mem.New(), &server.Options{
			Authenticate: []server.Authenticator{byHeader}, Limits: server.Limits{Waits: 2},
		})
		if err != nil {
			t.Fatal(err)
		}
		acquire := func(name string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.LocksAcquireProcedure, strings.NewReader(`{"name":"n","ttl":"60s","wait":"10s"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Test-Identity", name)
			w := httptest.NewRecorder()
			v.ServeHTTP(w, r)
			return w
		}
		if w := acquire("a"); !strings.Contains(w.Body.String(), `"granted":true`) {
			t.Fatal(w.Body)
		}
		var waits sync.WaitGroup
		for range 2 {
			waits.Go(func() { acquire("a") })
		}
		waits.Go(func() { acquire("b") })
		synctest.Wait()
		began := time.Now()
		if w := acquire("a"); w.Code != http.StatusTooManyRequests || time.Since(began) > 0 {
			t.Errorf("a third wait: %d %s", w.Code, w.Body)
		}
		waits.Wait()
		if w := acquire("a"); w.Code != http.StatusOK {
			t.Errorf("after the waits: %d %s", w.Code, w.Body)
		}
	})
}

// So many watches of a caller and no more. A watch that ends makes room.
func TestServer_Limits_watches(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Anonymous: access.Everything("a"), Limits: server.Limits{Watches: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config, web.EnableHTTP2 = v.HTTP(), true
	web.StartTLS()
	t.Cleanup(web.Close)
	stream, err := api.NewStoreClient(web.Client(), web.URL, connect.WithGRPC()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stream.CloseRequest(), stream.CloseResponse() }()
	watch := func(n uint64, begin bool) api.WatchResponse_Kind {
		m := &api.WatchRequest{Watch: n}
		if begin {
			m.Id = message.ID(driver.ID{Key: fmt.Sprint("k", n), Owner: "a"})
		}
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		if !begin {
			return 0 // there is no answer
		}
		for {
			answer, err := stream.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if answer.GetWatch() == n {
				return answer.GetKind()
			}
		}
	}
	for n, want := range []api.WatchResponse_Kind{api.WatchResponse_KIND_ACTIVE, api.WatchResponse_KIND_ACTIVE, api.WatchResponse_KIND_REFUSED} {
		if got := watch(uint64(n)+1, true); got != want {
			t.Errorf("watch %d: %v, want %v", n+1, got, want)
		}
	}
	watch(1, false)
	got := api.WatchResponse_KIND_REFUSED
	for n, end := uint64(10), time.Now().Add(20*time.Second); got == api.WatchResponse_KIND_REFUSED && time.Now().Before(end); n++ {
		got = watch(n, true)
	}
	if got != api.WatchResponse_KIND_ACTIVE {
		t.Errorf("after the end of a watch: %v", got)
	}
}
