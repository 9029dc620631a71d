package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

// A listener is a kind of listener.
type listener int

const (
	other    listener = iota // an address that other hosts reach
	loopback                 // an address of this host
	socket                   // a Unix socket
)

// Local returns a handler for a listener on the loopback device. Without authentication, its
// clients have the identity [Options].Local. It refuses calls that came through a proxy then, which
// would make every client of the proxy one of this host, and calls for another host, which a page
// in a browser makes by a name of its own for this address.
func (s *Server) Local() http.Handler { return s.on(loopback) }

// Socket returns a handler for a listener on a Unix socket. The user at the other end is the
// identity of a client: "unix:" and the user's number. The server's own user may do everything. The
// server must be the one of [Server.HTTP], which knows the connections of calls.
func (s *Server) Socket() http.Handler { return s.on(socket) }

// ServeHTTP answers one call of a listener that other hosts reach.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, other) }

func (s *Server) on(l listener) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, l) })
}

// Caller returns the identity of the client that sent a request, with its permissions. The error is
// the answer to the client, and nothing of the request is in it. The request must be one that this
// server serves.
func (s *Server) Caller(r *http.Request) (*access.Identity, error) {
	id, err := s.prove(r)
	switch {
	case errors.Is(err, driver.ErrUnavailable):
		return nil, failure(err)
	case err != nil:
		return nil, message.Error(&api.Reason{Kind: api.Reason_KIND_UNAUTHENTICATED, Text: err.Error()})
	}
	if s.opt.Permissions == nil {
		return id, nil
	}
	if more := s.opt.Permissions(id.Name); len(more) > 0 {
		id = &access.Identity{Name: id.Name, Permissions: slices.Concat(id.Permissions, more)}
	}
	return id, nil
}

// The errors of clients that have proved no identity.
var (
	errNoCredentials = errors.New("this server needs to know its clients, and the call has no credentials: set DISTLOCK_TOKEN or DISTLOCK_TOKEN_FILE")
	errNotBearer     = errors.New("this server needs to know its clients, and the header Authorization is not \"Bearer TOKEN\"")
	errNoToken       = errors.New("this server needs to know its clients, and the token of the call is malformed: " +
		"tokens of distlock token begin with dl_")
)

// prove returns the identity that the client of a request has proved, or has by its listener.
func (s *Server) prove(r *http.Request) (*access.Identity, error) {
	l := callOf(r.Context()).listener
	if l == socket {
		return peer(r.Context())
	}
	for _, authenticate := range s.opt.Authenticate {
		if id, err := authenticate(r); id != nil || err != nil {
			return id, err
		}
	}
	switch {
	case len(s.opt.Authenticate) > 0:
		return nil, unproved(r)
	case l == loopback:
		return s.opt.Local, nil
	case s.opt.Anonymous != nil:
		return s.opt.Anonymous, nil
	}
	return nil, errNoCredentials
}

// unproved returns why the credentials of a request prove nothing. It has nothing of them.
func unproved(r *http.Request) error {
	header := r.Header.Get("Authorization")
	scheme, token, _ := strings.Cut(header, " ")
	switch {
	case header == "":
		return errNoCredentials
	case !strings.EqualFold(scheme, "Bearer") || token == "":
		return errNotBearer
	}
	return errNoToken
}

// peerKey is the key, in the ctx of a connection, of the identity at the other end of its socket.
type peerKey struct{}

// peer returns the identity of the user at the other end of a socket.
func peer(ctx context.Context) (*access.Identity, error) {
	if id, ok := ctx.Value(peerKey{}).(*access.Identity); ok {
		return id, nil
	}
	return nil, errors.New("the user at the other end of the socket is not known")
}

// foreign returns why a listener without authentication refuses a call, or "". A page in a browser
// may call it by a name of its own for this address, and a proxy hides who calls.
func (s *Server) foreign(r *http.Request, l listener) string {
	if len(s.opt.Authenticate) > 0 || l == socket || l == other && s.opt.Hosts == nil {
		return ""
	}
	host := strings.Trim(hostOf(r.Host), "[]")
	ip := net.ParseIP(host)
	own := host == "localhost" || ip != nil && ip.IsLoopback() || slices.Contains(s.opt.Hosts, host)
	switch {
	case l == loopback && !own:
		return fmt.Sprintf("this listener is for clients of this host, and not for the host %.64q: use localhost", r.Host)
	case !own && ip == nil: // a name in DNS can be made to point here, and an address cannot
		return fmt.Sprintf("this server does not have the name %.64q: start it with --host", r.Host)
	}
	for name := range r.Header {
		if name != "Forwarded" && name != "Via" && !strings.HasPrefix(name, "X-Forwarded-") {
			continue
		}
		if l == loopback {
			return fmt.Sprintf("this listener is for clients of this host, and the call came through a proxy (%s)", name)
		}
		if !s.trusts(hostOf(r.RemoteAddr)) {
			return fmt.Sprintf("the call came through a proxy (%s) that this server does not trust: start it with --trusted-proxy", name)
		}
	}
	return ""
}
