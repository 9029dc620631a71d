package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
	"github.com/distlock/distlock/store/mem"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// A route without a class is refused when the server is made. One that is added past the table
// answers nobody.
func TestRoutes_class(t *testing.T) {
	for _, class := range []server.Class{0, server.Observer + 1} {
		_, err := server.New(t.Context(), mem.New(), &server.Options{Routes: []server.Route{{Pattern: "/x", Class: class, Handler: ok}}})
		if err == nil || !strings.Contains(err.Error(), "/x has no class") {
			t.Errorf("class %d: %v", class, err)
		}
	}
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("all")})
	if err != nil {
		t.Fatal(err)
	}
	v.HandleUnclassified(server.Route{Pattern: "/x", Handler: ok})
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("a route without a class: %d", w.Code)
	}
}

// Every route with every kind of bad credentials answers by its class.
func TestRoutes_credentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.toml")
	add := func(identity, allow string, expires time.Time) (string, string) {
		t.Helper()
		p, err := tokens.ParseAllow(allow)
		if err != nil {
			t.Fatal(err)
		}
		secret, token, err := tokens.Add(path, identity, []access.Permission{p}, expires)
		if err != nil {
			t.Fatal(err)
		}
		return secret, token.ID
	}
	good, _ := add("good", "*=acquire,observe,break", time.Time{})
	foreign, _ := add("foreign", "team-b/=acquire,observe,break", time.Time{})
	expired, _ := add("old", "*=acquire,observe,break", time.Now().Add(-time.Second))
	revoked, id := add("gone", "*=acquire,observe,break", time.Time{})
	if err := tokens.Revoke(path, id); err != nil {
		t.Fatal(err)
	}
	file, err := tokens.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	audit := server.NewAudit(io.Discard)
	defer audit.Close()
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Audit: audit, Authenticate: []server.Authenticator{file.Authenticate}, Permissions: file.Permissions,
		Routes: []server.Route{
			{Pattern: "GET /livez", Class: server.Public, Handler: ok},
			{Pattern: "/me", Class: server.Authenticated, Handler: ok},
			{Pattern: "GET /metrics", Class: server.Observer, Handler: ok},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"no token": "", "a wrong token": good[:len(good)-1] + "!", "an unknown id": "dl_aaaaaaaaaa" + good[strings.LastIndex(good, "_"):],
		"no token at all": "hunter22", "an expired token": expired, "a revoked token": revoked, "a foreign token": foreign, "a good token": good,
	}
	for pattern, class := range v.Routes() {
		for _, request := range requests(t, pattern) {
			for name, token := range cases {
				want := http.StatusOK
				switch {
				case class == server.Public, token == good:
				case token != foreign:
					want = http.StatusUnauthorized
				case class == server.Observer, strings.HasPrefix(pattern, "/distlock.") && request.about:
					want = http.StatusForbidden
				}
				got := answer(t, v, request, token)
				if got != want {
					t.Errorf("%s %s with %s: %d, want %d", request.method, request.path, name, got, want)
				}
			}
		}
	}
}

// A routeCall is one call of a route.
type routeCall struct {
	method, path, kind, body string
	about                    bool // it is about a name, of team-a
}

// locksCalls are the calls of the service Locks.
var locksCalls = map[string]routeCall{
	"Acquire": {body: `{"name":"team-a/x","ttl":"1s"}`, about: true},
	"Renew":   {body: `{"handles":["x"]}`}, // each renewal has its own answer
	"Release": {body: `{"name":"team-a/x","owner":"0123456789abcdefghijkl"}`, about: true},
	"Get":     {body: `{"name":"team-a/x"}`, about: true},
	"List":    {body: `{}`},
	"Break":   {body: `{"name":"team-a/x","all":true,"reason":"test"}`, about: true},
	"Info":    {body: `{}`},
}

// requests returns the calls of a route: of a service, one for each of its procedures. A procedure
// that is not here fails the test.
func requests(t *testing.T, pattern string) (out []routeCall) {
	t.Helper()
	if service, ok := strings.CutPrefix(pattern, "/distlock.v1."); ok {
		const json = "application/json"
		key := `"key":"dGVhbS1hL3g="` // team-a/x
		known := map[string]routeCall{
			"Features": {body: `{}`}, "Inspect": {body: `{}`},
			"Acquire": {body: `{"id":{` + key + `,"owner":"bw=="},"weight":"1","limit":"1","ttlNs":"1000000000"}`, about: true},
			"Release": {body: `{"id":{` + key + `,"owner":"bw=="}}`, about: true},
			"Renew":   {body: `{"renewals":[{"id":{` + key + `,"owner":"bw=="},"ttlNs":"1000000000"}]}`}, // each renewal has its own answer
			// Each attempt and each release has its own answer, as each renewal has.
			"AcquireAll": {body: `{"attempts":[{"id":{` + key + `,"owner":"bw=="},"weight":"1","limit":"1","ttlNs":"1000000000"}]}`},
			"ReleaseAll": {body: `{"ids":[{` + key + `,"owner":"bw=="}]}`},
			"Show":       {body: `{` + key + `}`, about: true}, "Break": {body: `{` + key + `}`, about: true},
			"List": {kind: "application/connect+json", body: "\x00\x00\x00\x00\x02{}"}, "Watch": {kind: "application/connect+json"},
		}
		methods := api.File_distlock_v1_store_proto.Services().ByName("Store").Methods()
		if service == "Locks/" {
			methods = api.File_distlock_v1_locks_proto.Services().ByName("Locks").Methods()
			known = locksCalls
		}
		for i := range methods.Len() {
			r, ok := known[string(methods.Get(i).Name())]
			if !ok {
				t.Fatalf("%s of %s has no request here", methods.Get(i).Name(), service)
			}
			if r.method, r.path = http.MethodPost, pattern+string(methods.Get(i).Name()); r.kind == "" {
				r.kind = json
			}
			out = append(out, r)
		}
		return out
	}
	switch {
	case strings.HasPrefix(pattern, "/grpc.health."):
		return []routeCall{{method: http.MethodPost, path: pattern + "Check", kind: "application/json", body: "{}"}}
	case strings.HasPrefix(pattern, "/grpc.reflection."):
		return []routeCall{{method: http.MethodPost, path: pattern + "ServerReflectionInfo", kind: "application/connect+json"}}
	}
	if method, path, ok := strings.Cut(pattern, " "); ok {
		return []routeCall{{method: method, path: path}}
	}
	return []routeCall{{method: http.MethodGet, path: pattern}}
}

// answer returns the code of the answer to a request.
func answer(t *testing.T, h http.Handler, q routeCall, token string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), q.method, q.path, strings.NewReader(q.body))
	r.ProtoMajor = 2
	r.Header.Set("Content-Type", q.kind)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body := w.Body.String()
	if strings.Contains(body, token) && token != "" || strings.Contains(body, "hunter22") {
		t.Errorf("%s: the answer has the token: %s", q.path, body)
	}
	if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("%s: 401 without WWW-Authenticate", q.path)
	}
	if strings.Contains(body, `"code":"unauthenticated"`) { // of a stream: it is the last message
		return http.StatusUnauthorized
	}
	if strings.Contains(body, `"code":"permission_denied"`) {
		return http.StatusForbidden
	}
	if w.Code == http.StatusBadRequest && strings.Contains(body, "failed_precondition") {
		return http.StatusOK // the claim is not held
	}
	return w.Code
}

// On loopback, clients without authentication are local: they acquire and observe. With
// authentication, no listener but a socket is without it.
func TestServer_Local_identity(t *testing.T) {
	call := func(h http.Handler, path, header string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"key":"a2V5"}`))
		r.Host = "localhost:7520"
		r.Header.Set("Content-Type", "application/json")
		if header != "" {
			r.Header.Set(header, "10.0.0.1")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	audit := server.NewAudit(io.Discard)
	defer audit.Close()
	reject := func(r *http.Request) (*access.Identity, error) {
		if r.Header.Get("X-Forwarded-For") == "" {
			return nil, nil
		}
		return access.Everything("test:proxied"), nil
	}
	breaker := &access.Identity{Name: "local", Permissions: []access.Permission{{Names: "*", Verbs: access.Break}}}
	for _, tt := range []struct {
		name                             string
		opt                              server.Options
		show, breaks, forwarded, outside int
	}{
		{"the default", server.Options{}, 200, 403, 400, 401},
		{"another identity", server.Options{Local: breaker}, 403, 200, 400, 401},
		{"anonymous elsewhere", server.Options{Anonymous: access.Everything("anonymous")}, 200, 403, 400, 200},
		{"with authentication", server.Options{
			Authenticate: []server.Authenticator{reject}, Local: breaker, Anonymous: access.Everything("anonymous"),
		}, 401, 401, 200, 401},
	} {
		tt.opt.Audit = audit
		v, err := server.New(t.Context(), mem.New(), &tt.opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := call(v.Local(), api.StoreShowProcedure, ""); got != tt.show {
			t.Errorf("%s: Show is %d", tt.name, got)
		}
		if got := call(v.Local(), api.StoreBreakProcedure, ""); got != tt.breaks {
			t.Errorf("%s: Break is %d", tt.name, got)
		}
		if got := call(v.Local(), api.StoreShowProcedure, "X-Forwarded-For"); got != tt.forwarded {
			t.Errorf("%s: through a proxy it is %d", tt.name, got)
		}
		if got := call(v, api.StoreShowProcedure, ""); got != tt.outside {
			t.Errorf("%s: at another address it is %d", tt.name, got)
		}
		if got := call(v.Socket(), api.StoreShowProcedure, "X-Forwarded-For"); got != 401 {
			t.Errorf("%s: a socket without a user is %d", tt.name, got)
		}
	}
}

// The server answers to its own names only, and to content types that a page in a browser cannot
// send to another origin.
func TestServer_Local_host(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Hosts: []string{"locks.test"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, kind string
		want       int
	}{
		{"locks.test:7520", "application/json", 200},
		{"evil.test:7520", "application/json", 400},
		{"localhost", "text/plain", 415},
		{"localhost", "application/x-www-form-urlencoded", 415},
		{"localhost", "", 415},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.StoreFeaturesProcedure, strings.NewReader("{}"))
		r.Host = tt.host
		r.Header.Set("Content-Type", tt.kind)
		w := httptest.NewRecorder()
		if v.Local().ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
}

// A page of another origin calls no route of any listener, also if its browser has credentials.
func TestServer_cross_origin(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Authenticate: []server.Authenticator{func(*http.Request) (*access.Identity, error) { return access.Everything("test:browser"), nil }},
		Routes:       []server.Route{{Pattern: "/page", Class: server.Authenticated, Handler: ok}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []http.Handler{v, v.Local()} {
		for _, path := range []string{api.StoreFeaturesProcedure, "/page"} {
			for header, want := range map[[2]string]int{
				{"Sec-Fetch-Site", "same-origin"}: 200, {"Sec-Fetch-Site", "none"}: 200, {"X-Nothing", ""}: 200,
				{"Origin", "https://locks.test"}: 200,
				{"Sec-Fetch-Site", "cross-site"}: 400, {"Sec-Fetch-Site", "same-site"}: 400, {"Origin", "https://evil.test"}: 400, {"Origin", "null"}: 400,
			} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("{}"))
				r.Host = "locks.test"
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set(header[0], header[1])
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != want {
					t.Errorf("%s %v: %d %s", path, header, w.Code, w.Body)
				}
			}
		}
	}
}

// At other addresses without authentication, a name must be one of the server, and a proxy one that
// it trusts.
func TestServer_Anonymous(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Anonymous: access.Everything("anonymous"), Hosts: []string{"locks.test"}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, from, header string
		want               int
	}{
		{"locks.test:7520", "192.0.2.1:1", "", 200},
		{"192.0.2.9:7520", "192.0.2.1:1", "", 200},
		{"[2001:db8::1]:7520", "192.0.2.1:1", "", 200},
		{"evil.test:7520", "192.0.2.1:1", "", 400},
		{"locks.test", "192.0.2.1:1", "X-Forwarded-For", 400},
		{"locks.test", "10.1.2.3:1", "X-Forwarded-For", 200},
		{"locks.test", "192.0.2.1:1", "Via", 400},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.StoreFeaturesProcedure, strings.NewReader("{}"))
		r.Host, r.RemoteAddr = tt.host, tt.from
		r.Header.Set("Content-Type", "application/json")
		if tt.header != "" {
			r.Header.Set(tt.header, "192.0.2.7")
		}
		w := httptest.NewRecorder()
		if v.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
}

// The address of a client is that of its connection. What a proxy says counts only if it is
// trusted.
func TestServer_remote(t *testing.T) {
	var out lines
	audit := server.NewAudit(&out)
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Audit: audit, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, tt := range []struct{ from, forwarded, remote string }{
		{"192.0.2.1:1", "", "192.0.2.1"},
		{"192.0.2.2:1", "198.51.100.1", "192.0.2.2"},
		{"10.0.0.1:1", "198.51.100.2", "198.51.100.2"},
		{"10.0.0.1:1", "203.0.113.1, 198.51.100.3, 10.0.0.2", "198.51.100.3"}, // the first is what the client says
		{"10.0.0.3:1", "nonsense", "10.0.0.3"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, api.StoreFeaturesProcedure, strings.NewReader("{}"))
		r.RemoteAddr = tt.from
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		v.ServeHTTP(httptest.NewRecorder(), r) // refused, for want of an identity
		want = append(want, tt.remote)
	}
	if err := audit.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.b.String()) {
		var e server.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Remote)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the addresses are %v, want %v", got, want)
	}
}

// On a socket, the user at the other end is the client. The server's own user may do everything.
func TestServer_Socket(t *testing.T) {
	audit := server.NewAudit(io.Discard)
	defer audit.Close()
	seen := make(chan *access.Identity, 1)
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Audit: audit, Authenticate: []server.Authenticator{func(*http.Request) (*access.Identity, error) { return nil, nil }},
		Routes: []server.Route{{Pattern: "/me", Class: server.Authenticated, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen <- access.FromContext(r.Context())
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	h := v.HTTP()
	h.Handler = v.Socket()
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	resp, err := client.Get("http://localhost/me")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if id := <-seen; !strings.HasPrefix(id.Name, "unix:") || !id.MayAll(access.All) || os.Getuid() >= 0 && id.Name != fmt.Sprint("unix:", os.Getuid()) {
		t.Errorf("the identity is %+v", id)
	}
	c := api.NewStoreClient(client, "http://localhost")
	if _, err := c.Break(t.Context(), &api.BreakRequest{Key: []byte("x")}); err != nil {
		t.Errorf("Break: %v, %v", err, message.ReasonOf(err))
	}
}
