package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/message"
)

// Options are the options of a [Store].
type Options struct {
	// Dial connects to a server: network is "tcp" or "unix". Nil means net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Token returns the token of this client, or "" if it has none. It is called by Open, and again
	// after a server refused the token. Nil means that of the variable DISTLOCK_TOKEN, or of the
	// file that DISTLOCK_TOKEN_FILE names.
	Token func() (string, error)
}

const (
	// dialLimit bounds how long a connection may take, so that the next server is tried.
	dialLimit = 2 * time.Second

	// maxConns is the number of connections of each kind to a server.
	maxConns = 128

	// idleLimit is below the idle limit of servers, so that no call meets a connection that a
	// server is just closing.
	idleLimit = 30 * time.Second

	// pingAfter and pingLimit bound how long a stream of watches is silent before the client checks
	// whether the server is still there.
	pingAfter, pingLimit = 15 * time.Second, 5 * time.Second
)

// A server is one of the servers of a store, with its connections. Renewals and releases have
// connections of their own, so that they never wait behind attempts.
type server struct {
	scheme, host string // of requests
	addr         string // for messages
	calls        *http.Transport
	keeps        *http.Transport
	watches      *http.Transport // HTTP/2, for the stream in both directions
	short        [2]*direct      // for calls with short answers, and for those that keep a claim; nil: see newServer

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// A conn is a connection that ends with its store.
type conn struct {
	net.Conn
	of *server
}

// raw returns the connection as the system knows it.
func (c *conn) raw() (syscall.RawConn, error) {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return inner.SyscallConn()
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func newServer(t *target, addr string, opt *Options) *server {
	dial := opt.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialLimit}).DialContext
	}
	v := &server{scheme: t.scheme, host: addr, addr: addr, conns: map[*conn]struct{}{}}
	network := "tcp"
	if t.network == "unix" {
		network, v.host = "unix", "localhost"
	}
	connect := func(ctx context.Context) (*conn, error) {
		to := addr
		if network == "tcp" {
			to = withPort(addr, t.scheme)
		}
		made, err := dial(ctx, network, to)
		if err != nil {
			return nil, &dialError{err}
		}
		c := &conn{made, v}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.conns[c] = struct{}{}
		return c, nil
	}
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
			TLSClientConfig: t.tls.Clone(), TLSHandshakeTimeout: dialLimit, DisableCompression: true,
			MaxIdleConnsPerHost: maxConns, MaxConnsPerHost: maxConns, IdleConnTimeout: idleLimit, Protocols: &http.Protocols{},
		}
	}
	v.calls, v.keeps, v.watches = transport(), transport(), transport()
	v.calls.Protocols.SetHTTP1(true)
	v.keeps.Protocols.SetHTTP1(true)
	v.watches.Protocols.SetHTTP2(t.scheme == "https")
	v.watches.Protocols.SetUnencryptedHTTP2(t.scheme == "http")
	if opt.Dial == nil && canPeek { // a connection of Dial may be none of the system
		for i := range v.short {
			v.short[i] = newDirect(connect, v.config(t))
		}
	}
	v.watches.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingLimit}
	return v
}

// config returns the configuration of TLS, or nil.
func (v *server) config(t *target) *tls.Config {
	if t.scheme != "https" {
		return nil
	}
	c := t.tls.Clone()
	c.ServerName, _, _ = net.SplitHostPort(withPort(v.addr, t.scheme)) // it has a port
	return c
}

// A transport makes calls on its connections.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// transport returns the connections for a call.
func (v *server) transport(path string) transport {
	if v.short[0] != nil {
		switch path {
		case api.StoreAcquireProcedure, api.StoreAcquireAllProcedure:
			return v.short[0]
		case api.StoreRenewProcedure, api.StoreReleaseProcedure, api.StoreReleaseAllProcedure:
			return v.short[1]
		}
	}
	switch path {
	case api.StoreWatchProcedure:
		return v.watches
	case api.StoreRenewProcedure, api.StoreReleaseProcedure, api.StoreReleaseAllProcedure:
		return v.keeps
	}
	return v.calls
}

// close closes all connections: those of HTTP/2 would stay for a while after their last stream.
func (v *server) close() {
	v.mu.Lock()
	conns := slices.Collect(maps.Keys(v.conns))
	v.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // nothing is sent any more
	}
	if v.short[0] != nil {
		v.short[0].CloseIdleConnections()
		v.short[1].CloseIdleConnections()
	}
	v.calls.CloseIdleConnections()
	v.keeps.CloseIdleConnections()
	v.watches.CloseIdleConnections()
}

// A dialError is a connection that could not be made: nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }

func (e *dialError) Unwrap() error { return e.err }

// A sender sends the requests of a store. It is a connect.HTTPClient: there are no redirects, and
// no proxies from the environment.
type sender struct{ *Store }

// Do sends a request to the server in use. If no connection to it can be made, Do sends it to the
// next one.
func (s sender) Do(r *http.Request) (*http.Response, error) {
	sent := s.identity.now()
	if sent != "" {
		r.Header.Set(message.StoreHeader, sent)
	}
	if token := s.token.now(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for left := len(s.servers) - 1; ; left-- {
		used := s.current.Load()
		v := s.servers[used]
		r.URL.Scheme, r.URL.Host, r.Host = v.scheme, v.host, v.host
		resp, err := v.transport(r.URL.Path).RoundTrip(r)
		switch {
		case err == nil:
			return s.checked(v, sent, resp)
		case errors.Is(r.Context().Err(), context.Canceled):
			return nil, err // the caller has left: the server may be well
		}
		// The other connections may be as dead as this one, without an error. Each would cost a
		// call.
		v.transport(r.URL.Path).CloseIdleConnections()
		s.next(used)
		if left == 0 || !rewound(r, err) {
			return nil, v.explained(err)
		}
	}
}

// rewound makes a request ready for the next server, if nothing of it was sent.
func rewound(r *http.Request, err error) bool {
	var dial *dialError
	if !errors.As(err, &dial) || r.Context().Err() != nil || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	r.Body = body
	return err == nil
}

// next takes another server into use, unless that was done since. The watches move to it too: a
// store may wake only the watchers of the server through which it got the attempt.
func (s *Store) next(used int64) {
	if s.current.CompareAndSwap(used, (used+1)%int64(len(s.servers))) && len(s.servers) > 1 {
		s.watcher.move()
	}
}

// checked returns an answer of a lock server with the right store. An answer without an identity is
// from something else in between, and an answer from another store is a refusal, or worthless.
func (s *Store) checked(v *server, sent string, resp *http.Response) (*http.Response, error) {
	found := resp.Header.Get(message.StoreHeader)
	var err error
	if found == "" {
		err = fmt.Errorf("%s is no lock server: it answers %s", v.addr, resp.Status)
		if v.scheme == "http" && refusesPlain(resp) {
			err = fmt.Errorf("%s speaks TLS: use https:// in place of http://", v.addr)
		}
	} else if other := s.identity.meet(v.addr, sent, found); other != nil && resp.StatusCode == http.StatusOK {
		err = fmt.Errorf("no answer of the store %s: %s", sent, other.Error())
	}
	if err != nil {
		_ = resp.Body.Close() // nothing of it is used
		return nil, err
	}
	return resp, nil
}

// refusesPlain reports whether an answer is that of a server with TLS to a request without it.
func refusesPlain(resp *http.Response) bool {
	if resp.StatusCode != http.StatusBadRequest {
		return false
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a part is enough
	return strings.Contains(string(text), "HTTPS server") || strings.Contains(string(text), "HTTPS port")
}

// explained adds to an error of TLS how to mend it.
func (v *server) explained(err error) error {
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &plain) && string(plain.RecordHeader[:]) == "HTTP/":
		return fmt.Errorf("%s speaks no TLS: use http:// in place of https://: %w", v.addr, err)
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%s: %w: name the file of your authority with tls_ca=FILE in the URL", v.addr, err)
	}
	return err
}

// withPort adds the usual port of a scheme.
func withPort(addr, scheme string) string {
	if _, _, err := net.SplitHostPort(addr); err == nil {
		return addr
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	if n := len(addr); n > 2 && addr[0] == '[' {
		addr = addr[1 : n-1]
	}
	return net.JoinHostPort(addr, port)
}

// minTLS is the lowest version of TLS.
const minTLS = tls.VersionTLS12
