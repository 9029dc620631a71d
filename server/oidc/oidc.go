// Package oidc authenticates the clients of a lock server by the tokens of an OpenID Connect
// issuer, such as a CI system, Kubernetes, or the log-in of a company.
//
// The issuer may be down when the server starts. The server fetches the keys of the issuer with the
// first token, and keeps them. If a token has an unknown key, the server fetches the keys again, at
// most once a minute.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server/access"
)

const (
	// leeway is how far the clocks of the issuer and of this host may be apart.
	leeway = time.Minute

	// fetchPause is the shortest time between two fetches of keys, and retryPause the one after a
	// fetch that failed.
	fetchPause = time.Minute
	retryPause = 5 * time.Second

	// fetchLimit bounds one fetch, and maxAnswer its size.
	fetchLimit = 5 * time.Second
	maxAnswer  = 1 << 20

	// maxSubject is the longest name of a client, as the standard has it.
	maxSubject = 255
)

// algorithms are those of signatures. Symmetric ones and "none" are not among them.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512}

// Options are the options of an [Issuer].
type Options struct {
	// Client fetches the keys. Nil means a client with the certificates of this host.
	Client *http.Client

	// Logger receives why keys could not be fetched. Nil: nothing is logged.
	Logger *slog.Logger
}

// An Issuer verifies the tokens of one issuer for one audience. Its methods are safe for concurrent
// use.
type Issuer struct {
	url      string
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// New returns an issuer by its URL, which is https:// and the claim "iss" of its tokens. Only
// tokens for the audience, the claim "aud", are accepted. New makes no request.
func New(issuer, audience string, opt *Options) (*Issuer, error) {
	if opt == nil {
		opt = &Options{}
	}
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, errors.New("oidc: the issuer is no URL of the form https://HOST/PATH") // it may have a password
	case audience == "":
		return nil, errors.New("oidc: the audience is missing: without it every token of the issuer would be accepted")
	}
	client := &http.Client{Timeout: fetchLimit, CheckRedirect: sameScheme}
	base := http.DefaultTransport
	if opt.Client != nil && opt.Client.Transport != nil {
		base = opt.Client.Transport
	}
	client.Transport = bounded{base}
	keys := &keySet{issuer: issuer, client: client, log: opt.Logger}
	if keys.log == nil {
		keys.log = slog.New(slog.DiscardHandler)
	}
	// The times of a token are checked here, because the verifier has another leeway for each.
	config := &oidc.Config{ClientID: audience, SupportedSigningAlgs: algorithms, SkipExpiryCheck: true}
	return &Issuer{url: issuer, keys: keys, verifier: oidc.NewVerifier(issuer, keys, config)}, nil
}

func sameScheme(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != "https" || len(via) > 3 {
		return errors.New("oidc: the issuer redirects elsewhere")
	}
	return nil
}

// Authenticate returns the identity in the token of a request, "oidc:<issuer>#<subject>", without
// permissions. It returns nil if the request has no token of the form that issuers make. It is a
// server.Authenticator.
func (i *Issuer) Authenticate(r *http.Request) (*access.Identity, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.Count(token, ".") != 2 {
		return nil, nil //nolint:nilnil // see server.Authenticator
	}
	name, err := i.verify(r.Context(), token)
	if err != nil {
		return nil, err
	}
	return &access.Identity{Name: name}, nil
}

// verify returns the name of the client that a token is for.
func (i *Issuer) verify(ctx context.Context, token string) (name string, err error) {
	t, err := i.verifier.Verify(ctx, token)
	if err != nil {
		if i.keys.down() {
			return "", fmt.Errorf("%w: the keys of the issuer of the token cannot be fetched", driver.ErrUnavailable)
		}
		return "", err
	}
	var claims struct {
		NotBefore float64 `json:"nbf"`
	}
	if err := t.Claims(&claims); err != nil {
		return "", fmt.Errorf("oidc: malformed token: %w", err)
	}
	now := time.Now()
	switch {
	case !now.Before(t.Expiry.Add(leeway)): // also if the token has no end
		return "", fmt.Errorf("oidc: the token has expired: %s", t.Expiry.UTC().Format(time.RFC3339))
	case time.Unix(int64(claims.NotBefore), 0).After(now.Add(leeway)):
		return "", errors.New("oidc: the token is not valid yet")
	case !printable(t.Subject):
		return "", errors.New("oidc: the token has no subject, or one that cannot be shown")
	}
	return "oidc:" + i.url + "#" + t.Subject, nil
}

// printable reports whether a subject can be part of an identity: in logs and in files.
func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return s != "" && len(s) <= maxSubject
}

// A keySet has the keys of an issuer. It is an oidc.KeySet.
type keySet struct {
	issuer string
	client *http.Client
	log    *slog.Logger
	failed atomic.Bool // the last fetch

	mu   sync.Mutex // held for a fetch of the issuer's description, which callers wait for
	keys *oidc.RemoteKeySet
	next time.Time // no fetch of the description before it
}

// down reports whether the last fetch failed.
func (k *keySet) down() bool { return k.failed.Load() }

// fetched notes the result of a fetch, and logs a failure.
func (k *keySet) fetched(err error) {
	if k.failed.Store(err != nil); err != nil {
		k.log.Warn("the keys of an issuer cannot be fetched", "issuer", k.issuer, "err", err)
	}
}

// VerifySignature verifies the signature of a token whose algorithm is one of algorithms.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	keys, err := k.remote(ctx)
	if err != nil {
		return nil, err
	}
	return keys.VerifySignature(ctx, token)
}

// remote returns the keys, after the issuer has said where they are.
func (k *keySet) remote(ctx context.Context) (*oidc.RemoteKeySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.keys != nil:
		return k.keys, nil
	case time.Now().Before(k.next):
		return nil, errNoKeys
	}
	// The fetch is for all callers, and does not end with this one.
	fetch := oidc.ClientContext(context.WithoutCancel(ctx), k.client)
	p, err := oidc.NewProvider(fetch, k.issuer)
	var where struct {
		Keys string `json:"jwks_uri"`
	}
	if err == nil {
		err = p.Claims(&where)
	}
	if u, bad := url.Parse(where.Keys); err == nil && (bad != nil || u.Scheme != "https") {
		err = errors.New("its keys are not at a URL of the form https://HOST/PATH")
	}
	if k.fetched(err); err != nil {
		k.next = time.Now().Add(retryPause)
		return nil, errNoKeys
	}
	limited := *k.client
	limited.Transport = &paced{base: k.client.Transport, fetched: k.fetched}
	k.keys = oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), &limited), where.Keys) //nolint:contextcheck // it lives longer
	return k.keys, nil
}

var errNoKeys = errors.New("oidc: the issuer has not answered")

// paced refuses requests that follow the last one too soon. The key set makes one for every token
// that no known key verifies, and strangers can send such tokens as often as they like.
type paced struct {
	base    http.RoundTripper
	fetched func(error)

	mu   sync.Mutex
	next time.Time
}

// RoundTrip sends a request.
func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.next) {
		return nil, errors.New("no known key has signed the token, and the keys were fetched a moment ago")
	}
	resp, err := p.base.RoundTrip(r)
	failed, pause := err, fetchPause
	if err == nil && resp.StatusCode != http.StatusOK {
		failed = errors.New(resp.Status)
	}
	if p.fetched(failed); failed != nil {
		pause = retryPause
	}
	p.next = time.Now().Add(pause)
	return resp, err
}

// bounded bounds the size of answers.
type bounded struct{ base http.RoundTripper }

// RoundTrip sends a request.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}
