package oidc_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server/oidc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An issuer is a real one: it has a TLS server, keys, and signs tokens.
type issuer struct {
	url     string
	client  *http.Client
	fetches atomic.Int64 // of its keys
	down    atomic.Bool

	mu   sync.Mutex
	keys jose.JSONWebKeySet
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var answer any
	switch {
	case i.down.Load():
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case r.URL.Path == "/.well-known/openid-configuration":
		answer = map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"}
	case r.URL.Path == "/keys":
		i.fetches.Add(1)
		answer = i.keys
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// publish adds a key to those of the issuer.
func (i *issuer) publish(kid string, key crypto.Signer, alg string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys.Keys = append(i.keys.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: kid, Algorithm: alg, Use: "sig"})
}

// newIssuer starts an issuer on a socket of this host.
func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	web := httptest.NewTLSServer(i)
	t.Cleanup(web.Close)
	i.url, i.client = web.URL, web.Client()
	return i
}

// verifier returns the issuer as a server sees it.
func (i *issuer) verifier(t *testing.T) *oidc.Issuer {
	t.Helper()
	v, err := oidc.New(i.url, "locks", &oidc.Options{Client: i.client})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// claims returns the claims of a good token.
func (i *issuer) claims() map[string]any {
	return map[string]any{"iss": i.url, "aud": []string{"other", "locks"}, "sub": "repo:app:ref:main", "exp": time.Now().Add(time.Minute).Unix()}
}

func sign(t *testing.T, key any, alg jose.SignatureAlgorithm, kid string, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// identify sends a token as clients do.
func identify(t *testing.T, v *oidc.Issuer, token string) (string, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	id, err := v.Authenticate(r)
	if id == nil {
		return "", err
	}
	return id.Name, err
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Tokens that RSA or an elliptic curve signed are accepted, if everything in them is right.
func TestIssuer_Verify(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	ec, rs, foreign := ecKey(t), rsaKey(t), ecKey(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.publish("ec", ec, "ES256")
	i.publish("rsa", rs, "")
	i.publish("ed", ed, "EdDSA")
	v := i.verifier(t)
	with := func(key string, value any) map[string]any {
		c := i.claims()
		if c[key] = value; value == nil {
			delete(c, key)
		}
		return c
	}
	now := time.Now().Unix()
	for name, tt := range map[string]struct {
		token string
		bad   string // part of the error
	}{
		"curve":                 {sign(t, ec, jose.ES256, "ec", i.claims()), ""},
		"RSA":                   {sign(t, rs, jose.RS512, "rsa", i.claims()), ""},
		"expired in the leeway": {sign(t, ec, jose.ES256, "ec", with("exp", now-40)), ""},
		"begins in the leeway":  {sign(t, ec, jose.ES256, "ec", with("nbf", now+40)), ""},
		"expired":               {sign(t, ec, jose.ES256, "ec", with("exp", now-80)), "has expired"},
		"no end":                {sign(t, ec, jose.ES256, "ec", with("exp", nil)), "has expired"},
		"not yet":               {sign(t, ec, jose.ES256, "ec", with("nbf", now+80)), "not valid yet"},
		"audience":              {sign(t, ec, jose.ES256, "ec", with("aud", "other")), "expected audience"},
		"no audience":           {sign(t, ec, jose.ES256, "ec", with("aud", nil)), "expected audience"},
		"issuer":                {sign(t, ec, jose.ES256, "ec", with("iss", "https://other")), "different provider"},
		"subject":               {sign(t, ec, jose.ES256, "ec", with("sub", "")), "no subject"},
		"hidden subject":        {sign(t, ec, jose.ES256, "ec", with("sub", "a\nb")), "cannot be shown"},
		"foreign key":           {sign(t, foreign, jose.ES256, "ec", i.claims()), "failed to verify signature"},
		"PSS":                   {sign(t, rs, jose.PS256, "rsa", i.claims()), "unexpected signature algorithm"},
		"Edwards":               {sign(t, ed, jose.EdDSA, "ed", i.claims()), "unexpected signature algorithm"},
		"symmetric":             {sign(t, []byte(strings.Repeat("k", 32)), jose.HS256, "ec", i.claims()), "unexpected signature algorithm"},
		"none":                  {"eyJhbGciOiJub25lIn0.e30.", "malformed"},
		"garbage":               {"a.b.c", "malformed"},
	} {
		got, err := identify(t, v, tt.token)
		switch {
		case tt.bad == "" && (err != nil || got != "oidc:"+i.url+"#repo:app:ref:main"):
			t.Errorf("%s: %q, %v", name, got, err)
		case tt.bad != "" && (err == nil || got != "" || !strings.Contains(err.Error(), tt.bad)):
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.bad)
		}
	}
	for _, token := range []string{"", "dl_ci_secret", "a.b"} {
		if got, err := identify(t, v, token); got != "" || err != nil {
			t.Errorf("%q is taken for a token of the issuer: %v", token, err)
		}
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// pipes is a listener in memory, for virtual time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p <- theirs
	return ours, nil
}

// virtual starts an issuer for virtual time, with TLS and without sockets.
func virtual(t *testing.T) *issuer {
	t.Helper()
	i, p := &issuer{url: "https://example.com"}, make(pipes)
	web := httptest.NewUnstartedServer(i)
	_ = web.Listener.Close()
	web.Listener = p
	web.StartTLS()
	transport := web.Client().Transport.(*http.Transport).Clone()
	transport.DialContext, transport.DisableKeepAlives = p.dial, true
	i.client = &http.Client{Transport: transport}
	t.Cleanup(func() { close(p); web.Close() })
	return i
}

// A new key is fetched when a token with it comes, and strangers with tokens of unknown keys make
// the server fetch at most once a minute.
func TestIssuer_rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := virtual(t)
		first, second := ecKey(t), ecKey(t)
		i.publish("1", first, "ES256")
		v := i.verifier(t)
		good := func(key *ecdsa.PrivateKey, kid string) bool {
			c := i.claims()
			c["exp"] = time.Now().Add(time.Hour).Unix()
			_, err := identify(t, v, sign(t, key, jose.ES256, kid, c))
			return err == nil
		}
		if !good(first, "1") {
			t.Fatal("a good token is refused")
		}
		i.publish("2", second, "ES256")
		for range 20 {
			if good(second, "2") {
				t.Fatal("the keys were fetched within a minute")
			}
			time.Sleep(2 * time.Second)
		}
		if n := i.fetches.Load(); n != 1 {
			t.Errorf("%d fetches", n)
		}
		time.Sleep(30 * time.Second)
		if !good(second, "2") || !good(first, "1") {
			t.Error("the new key is unknown, or the old one is")
		}
		if n := i.fetches.Load(); n != 2 {
			t.Errorf("%d fetches", n)
		}
	})
}

// An issuer that is down stops neither the start nor, once its keys are known, its tokens.
func TestIssuer_down(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := virtual(t)
		key := ecKey(t)
		i.publish("1", key, "ES256")
		i.down.Store(true)
		v := i.verifier(t)
		verify := func() error {
			_, err := identify(t, v, sign(t, key, jose.ES256, "1", i.claims()))
			return err
		}
		if err := verify(); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatal(err)
		}
		i.down.Store(false)
		time.Sleep(6 * time.Second)
		if err := verify(); err != nil {
			t.Fatal(err)
		}
		i.down.Store(true)
		time.Sleep(10 * time.Minute)
		if err := verify(); err != nil {
			t.Error(err)
		}
	})
}

// An issuer without TLS, and one whose tokens are for everybody, are refused at the start.
func TestNew_refuses(t *testing.T) {
	for _, tt := range [][2]string{
		{"http://issuer", "locks"},
		{"issuer", "locks"},
		{"https://issuer?a=b", "locks"},
		{"https://issuer#a", "locks"},
		{"https://user:secret@issuer", "locks"},
		{"https://issuer", ""},
	} {
		if _, err := oidc.New(tt[0], tt[1], nil); err == nil {
			t.Errorf("%q is accepted", tt)
		}
	}
}
