package remote_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/remote"
)

func request(key, owner string) driver.Request {
	return driver.Request{ID: driver.ID{Key: key, Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
}

// at serves a store on a socket, and returns the server and its address.
func at(t testing.TB, s driver.Store) (*server.Server, string) {
	t.Helper()
	l := listen(t)
	return serve(t, s, l), l.Addr().String()
}

// hosts is a network in virtual time: each name has a store, or nobody listens there.
type hosts map[string]*pipes

func (h hosts) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	p := h[addr]
	if p == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return p.dial(ctx, network, addr)
}

func (h hosts) serve(t testing.TB, addr string, s driver.Store) *server.Server {
	h[addr] = newPipes()
	return serve(t, s, h[addr])
}

// A client that meets a second store fails and names both, also if it wants the second one.
func TestStore_other_store(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, one, two := hosts{}, mem.New(), mem.New()
		a, b := h.serve(t, "a:80", one), h.serve(t, "b:80", two)
		s := open(t, "http://a,b", &remote.Options{Dial: h.dial})
		ctx := t.Context()
		if res, err := s.Acquire(ctx, request("key", "x")); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		info, err := s.Inspect(ctx)
		if err != nil || !slices.ContainsFunc(info.Findings, func(f driver.Finding) bool {
			return f.Level == driver.LevelDanger && strings.Contains(f.What, "b has another store, "+b.Identity())
		}) {
			t.Errorf("Inspect: %+v, %v", info.Findings, err)
		}
		a.Drain() // so that the second one is called
		_, err = s.Acquire(ctx, request("other", "y"))
		var other *remote.OtherStoreError
		if !errors.As(err, &other) || *other != (remote.OtherStoreError{Server: "b", Want: a.Identity(), Found: b.Identity()}) ||
			!errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), a.Identity()) || !strings.Contains(err.Error(), b.Identity()) {
			t.Errorf("Acquire: %v", err)
		}
		for c := range two.List(ctx, "") {
			t.Errorf("the second store has %+v", c)
		}
		if _, err := remote.Open(ctx, "http://b?store_id="+a.Identity(), &remote.Options{Dial: h.dial}); !errors.As(err, &other) {
			t.Errorf("Open with the identity of another store: %v", err)
		}
	})
}

// A store that was made again is used when the client cannot hold a claim of the old one, and never
// if the URL pins the old one.
func TestStore_replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hosts{}
		old := h.serve(t, "a:80", mem.New()).Identity()
		s := open(t, "http://a", &remote.Options{Dial: h.dial})
		pinned := open(t, "http://a?store_id="+old, &remote.Options{Dial: h.dial})
		ctx, r := t.Context(), request("key", "x")
		if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		gone := h["a:80"]
		found := h.serve(t, "a:80", mem.New()).Identity()
		gone.drop()
		attempt := func(s *remote.Store) error {
			_, err := s.Acquire(ctx, request("key", "y"))
			return err
		}
		for range 2 {
			if err := attempt(s); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("the first claim may be held: %v", err)
			}
			time.Sleep(r.TTL / 2)
		}
		time.Sleep(time.Second)
		_ = attempt(s) // the last that is refused
		if err := attempt(s); err != nil {
			t.Errorf("the first claim has ended: %v", err)
		}
		_ = attempt(pinned)
		if err := attempt(pinned); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), found) {
			t.Errorf("pinned: %v", err)
		}
		info, err := s.Inspect(ctx)
		if err != nil || !slices.ContainsFunc(info.Findings, func(f driver.Finding) bool {
			return f.Level == driver.LevelWarning && strings.Contains(f.What, old) && strings.Contains(f.What, found)
		}) {
			t.Errorf("Inspect: %+v, %v", info.Findings, err)
		}
	})
}

// The answer of something else than a lock server is no answer, whatever its code is.
func TestStore_proxy(t *testing.T) {
	v, addr := at(t, mem.New())
	var answer atomic.Pointer[http.HandlerFunc]
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := answer.Load(); h != nil {
			(*h)(w, r)
			return
		}
		forward(t, w, r, addr)
	}))
	defer web.Close()
	s := open(t, web.URL, nil)
	empty := func(status int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"503": empty(503, "text/html"), "502": empty(502, "text/html"), "404": empty(404, "application/json"),
		"an empty message": empty(200, "application/proto"),
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+addr+r.URL.Path, http.StatusTemporaryRedirect)
		},
		"a part of a grant": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			w.Header().Set(message.StoreHeader, v.Identity())
			part, _ := proto.Marshal(&api.AcquireResponse{Granted: true})
			_, _ = w.Write(append(part, 0x80)) // and the first byte of the next field
		},
		"a grant without its fence": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			w.Header().Set(message.StoreHeader, v.Identity())
			part, _ := proto.Marshal(&api.AcquireResponse{Granted: true})
			if r.URL.Path == api.StoreReleaseProcedure {
				w.WriteHeader(502)
			}
			_, _ = w.Write(part)
		},
		"an error of Connect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(message.StoreHeader, "x")
			w.WriteHeader(503)
			fmt.Fprint(w, `{"code":"unavailable"}`)
		},
	} {
		answer.Store(&h)
		_, err := s.Acquire(t.Context(), request("key", "x"))
		if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotHeld) || errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: Acquire returns %v, want an unknown outcome", name, err)
		}
		if err := s.Release(t.Context(), request("key", "x").ID); err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotHeld) {
			t.Errorf("%s: Release returns %v, want an unknown outcome", name, err)
		}
	}
}

// A refusal because of the store is definite, also if the answer has the identity that the client
// wants: something in between changed one of them.
func TestStore_odd_refusal(t *testing.T) {
	v, addr := at(t, mem.New())
	var refuses atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refuses.Load() {
			forward(t, w, r, addr)
			return
		}
		w.Header().Set(message.StoreHeader, v.Identity())
		_ = connect.NewErrorWriter().Write(w, r, message.Error(&api.Reason{Kind: api.Reason_KIND_OTHER_STORE, Text: "another store"}))
	}))
	defer web.Close()
	s := open(t, web.URL, nil)
	refuses.Store(true)
	if _, err := s.Acquire(t.Context(), request("key", "x")); !errors.Is(err, driver.ErrUnavailable) || err.Error() != "another store" {
		t.Errorf("error %v", err)
	}
}

func forward(t *testing.T, w http.ResponseWriter, r *http.Request, addr string) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", addr, ""
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	buf := make([]byte, 4096)
	n, _ := resp.Body.Read(buf)
	_, _ = w.Write(buf[:n])
}

// A store that lost its data may grant a claim by its queue until the entry ends, which may be
// later than the TTL. Until then the client does not take another store.
func TestStore_replaced_queue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ctx := hosts{}, t.Context()
		old := mem.New()
		h.serve(t, "a:80", old)
		if res, err := old.Acquire(ctx, request("key", "holder")); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		s := open(t, "http://a", &remote.Options{Dial: h.dial})
		r := request("key", "x")
		r.TTL, r.QueueTTL = time.Second, 20*time.Second
		if res, err := s.Acquire(ctx, r); err != nil || res.Granted {
			t.Fatal(res, err)
		}
		gone := h["a:80"]
		h.serve(t, "a:80", mem.New())
		gone.drop()
		for range 10 {
			if _, err := s.Acquire(ctx, r); !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("the queue entry may be granted: %v", err)
			}
			time.Sleep(1900 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		_, _ = s.Acquire(ctx, r) // the last that is refused
		if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
			t.Errorf("the queue entry has ended: %+v, %v", res, err)
		}
	})
}

// A client whose second server has another store goes back to the first one.
func TestStore_other_store_back(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, one, ctx := hosts{}, mem.New(), t.Context()
		h.serve(t, "a:80", one)
		h.serve(t, "b:80", mem.New())
		s := open(t, "http://a,b", &remote.Options{Dial: h.dial})
		r := request("key", "x")
		if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		a := h["a:80"]
		delete(h, "a:80")
		a.drop()
		renew := func() error {
			_, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute})
			return err
		}
		_ = renew() // a connection broke: the outcome may be unknown
		var other *remote.OtherStoreError
		if err := renew(); !errors.As(err, &other) {
			t.Errorf("only the other store is there: %v", err)
		}
		h.serve(t, "a:80", one)
		if err := renew(); err != nil {
			t.Errorf("the first server is back: %v", err)
		}
	})
}

// deadConn is a connection behind which nobody is any more, once its network has lost it.
type deadConn struct {
	net.Conn
	lost <-chan struct{}
}

func (c deadConn) Write(b []byte) (int, error) {
	select {
	case <-c.lost:
		return len(b), nil // nothing arrives, and no error comes back
	default:
		return c.Conn.Write(b)
	}
}

// A network that forgets connections without an error costs one call, and not one for each idle
// connection.
func TestStore_lost_connections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 8
		p, lost := newPipes(), make(chan struct{})
		gate := make(chan struct{})
		serve(t, &gated{driver.Forward{Store: mem.New()}, gate}, p)
		s := open(t, "http://localhost", &remote.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := p.dial(ctx, network, addr)
			select {
			case <-lost:
				return c, err
			default:
				return deadConn{c, lost}, err
			}
		}})
		ctx := t.Context()
		if res, err := s.Acquire(ctx, request("key", "x")); err != nil || !res.Granted {
			t.Fatal(res, err)
		}
		renew := func() error {
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := s.Renew(limited, driver.Renewal{ID: request("key", "x").ID, TTL: time.Minute})
			return err
		}
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				if err := renew(); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(gate) // each call has a connection
		calls.Wait()
		close(lost)
		if err := renew(); err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("a call by a lost connection: %v, want an unknown outcome", err)
		}
		if err := renew(); err != nil {
			t.Errorf("the next call: %v", err)
		}
	})
}

// gated is a store whose renewals wait for a gate.
type gated struct {
	driver.Forward
	gate <-chan struct{}
}

func (s *gated) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	<-s.gate
	return s.Forward.RenewAll(ctx, rs)
}

// If no connection can be made, the next server is called, and the call has one effect.
func TestStore_next_server(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, store := hosts{}, mem.New()
		h.serve(t, "b:80", store)
		s := open(t, "http://a,b", &remote.Options{Dial: h.dial}) // nobody listens on a
		ctx, r := t.Context(), request("key", "x")
		if res, err := s.Acquire(ctx, r); err != nil || !res.Granted || !res.Fresh {
			t.Fatal(res, err)
		}
		b := h["b:80"]
		delete(h, "b:80")
		b.drop()
		_, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute})
		if !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("no server: %v", err)
		}
		drains := h.serve(t, "a:80", store)
		if _, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute}); err != nil {
			t.Errorf("the other server: %v", err)
		}
		h.serve(t, "b:80", store)
		drains.Drain()
		if res, err := s.Acquire(ctx, r); err != nil || !res.Granted || res.Fresh {
			t.Errorf("while a server drains: %+v, %v", res, err)
		}
		delete(h, "b:80") // the one in use
		if _, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute}); err != nil {
			t.Errorf("no connection to the server in use: %v", err)
		}
	})
}

// A server that accepts connections and does not answer does not keep a client from the next one.
func TestOpen_silent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hosts{}
		silent := newPipes()
		h["a:80"] = silent
		var accepted sync.WaitGroup
		accepted.Go(func() {
			for _, err := silent.Accept(); err == nil; {
				_, err = silent.Accept()
			}
		})
		defer func() {
			silent.Close()
			silent.drop()
			accepted.Wait()
		}()
		h.serve(t, "b:80", mem.New())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // as the command has
		defer cancel()
		s, err := remote.Open(ctx, "http://a,b", &remote.Options{Dial: h.dial})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if res, err := s.Acquire(ctx, request("key", "x")); err != nil || !res.Granted {
			t.Error(res, err)
		}
		if _, err := remote.Open(t.Context(), "http://a", &remote.Options{Dial: h.dial}); err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("only the silent one: %v", err)
		}
	})
}

func TestStore_unix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, mem.New(), l)
	for _, url := range []string{"unix:" + path, "unix://" + strings.ReplaceAll(path, " ", "%20")} {
		s := open(t, url, nil)
		if res, err := s.Acquire(t.Context(), request(url, "x")); err != nil || !res.Granted {
			t.Errorf("%s: %v, %v", url, res, err)
		}
		if s.Watch(t.Context(), driver.ID{Key: url}) == nil {
			t.Errorf("%s cannot watch", url)
		}
	}
}

func TestStore_tls(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config, web.EnableHTTP2 = v.HTTP(), true
	web.Config.ErrorLog = discard
	web.StartTLS()
	t.Cleanup(web.Close) // after the client, whose stream is open
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, web.URL+"?tls_ca="+ca, nil)
	if res, err := s.Acquire(t.Context(), request("key", "x")); err != nil || !res.Granted {
		t.Error(res, err)
	}
	if s.Watch(t.Context(), driver.ID{Key: "key"}) == nil {
		t.Error("no watch by TLS")
	}
	var unknown x509.UnknownAuthorityError
	if _, err := remote.Open(t.Context(), web.URL, nil); err == nil || errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), unknown.Error()) {
		t.Errorf("an authority that is not known: %v", err)
	}
}

// Many renewals are split into messages that a server accepts, and each has its answer.
func TestStore_RenewAll_splits(t *testing.T) {
	_, addr := at(t, mem.New())
	s := open(t, "http://"+addr, nil)
	var rs []driver.Renewal
	for i := range 1200 {
		r := request(fmt.Sprint("key ", i), "x")
		if i%3 == 0 {
			if _, err := s.Acquire(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		rs = append(rs, driver.Renewal{ID: r.ID, TTL: time.Minute})
		if i < 20 {
			rs[i].Value = make([]byte, driver.MaxValue-1)
		}
	}
	rs[7].TTL = -1
	for i, got := range s.RenewAll(t.Context(), rs) {
		want := driver.ErrNotHeld
		if i%3 == 0 {
			want = nil
		}
		if i == 7 {
			want = driver.ErrInvalid
		}
		if !errors.Is(got.Err, want) {
			t.Errorf("renewal %d: %v, want %v", i, got.Err, want)
		}
	}
}

func TestOpen_refuses(t *testing.T) {
	for url, want := range map[string]string{
		"ftp://host": "want http://", "http:": "no host", "http://": "no host", "http://a/b": "a path", "http://u:secret@a": "a user or a password",
		"http://a,,b": "no host and port", "http://a:b:c": "no host and port", "unix:sock": "the path of a socket",
		"http://a?store_id=1&store_id=2": "twice", "http://a?token=secret": "unknown key", "http://a?tls_ca=x": "for https",
		"https://a?tls_ca=/none": "no such file", "http://a#b": "a fragment", "http://a?%zz": "malformed", "http://a?store_id=": "unknown key",
		"https://a:1,https://b:2": "write the scheme once: https://h1:7520,h2:7520",
	} {
		s, err := remote.Open(t.Context(), url, nil)
		if s != nil || !errors.Is(err, remote.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	began := time.Now()
	if _, err := remote.Open(t.Context(), "http://127.0.0.1:1", nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("nobody listens: %v", err)
	} else if took := time.Since(began); took > 5*time.Second {
		t.Errorf("nobody listens: it took %v", took)
	}
}

// A URL with the scheme of the other kind of server, and an authority that the client does not
// know, have an error that says how to mend it.
func TestOpen_mends(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = discard
	secure.StartTLS()
	defer secure.Close()
	at, tls := plain.Listener.Addr().String(), secure.Listener.Addr().String()
	for url, want := range map[string]string{
		"http://" + tls:  tls + " speaks TLS: use https://",
		"https://" + at:  at + " speaks no TLS: use http://",
		"https://" + tls: "tls_ca=FILE",
		"http://" + at:   at + " is no lock server: it answers 404",
	} {
		if _, err := remote.Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// lengthy is a store whose list takes long.
type lengthy struct{ driver.Forward }

func (s lengthy) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		for range 3 {
			time.Sleep(9 * time.Second)
			if ctx.Err() != nil {
				yield(driver.Claim{}, ctx.Err())
				return
			}
			if !yield(driver.Claim{Key: "key"}, nil) {
				return
			}
		}
	}
}

// A list may take longer than a call, by HTTP/1.1 and by HTTP/2.
func TestStore_List_long(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		serve(t, lengthy{driver.Forward{Store: mem.New()}}, p)
		s := open(t, "http://localhost", &remote.Options{Dial: p.dial})
		n := 0
		for _, err := range s.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		two := &http.Transport{DialContext: p.dial, Protocols: &http.Protocols{}}
		two.Protocols.SetUnencryptedHTTP2(true)
		defer two.CloseIdleConnections()
		list, err := api.NewStoreClient(&http.Client{Transport: two}, "http://localhost").List(t.Context(), &api.ListRequest{})
		for err == nil && list.Receive() {
			n += len(list.Msg().GetClaims())
		}
		if err != nil || list.Err() != nil || n != 6 {
			t.Errorf("%d claims, %v, %v", n, err, list.Err())
		}
	})
}
