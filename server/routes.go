package server

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

// setOptions sets the options, with their defaults.
func (s *Server) setOptions(opt *Options) {
	if opt != nil {
		s.opt = *opt
	}
	if s.opt.Local == nil {
		s.opt.Local = &access.Identity{
			Name: "local", Permissions: []access.Permission{{Names: "*", Verbs: access.Acquire | access.Observe}},
		}
	}
	if s.opt.Logger == nil {
		s.opt.Logger = slog.New(slog.DiscardHandler)
	}
}

// route adds a route to the table. A route without a class is refused.
func (s *Server) route(r Route) error {
	if r.Class < Public || r.Class > Observer {
		return fmt.Errorf("server: the route %s has no class", r.Pattern)
	}
	s.routes[r.Pattern] = r.Class
	s.mux.Handle(r.Pattern, r.Handler)
	return nil
}

// admit returns the identity of the client of a request, or the error of a client that may not use
// the route.
func (s *Server) admit(r *http.Request) (*access.Identity, error) {
	_, pattern := s.mux.Handler(r)
	class, known := s.routes[pattern]
	if !known && pattern != "" {
		return nil, denied("nobody may use the route %s", pattern)
	}
	id, err := s.Caller(r)
	switch {
	case class == Authenticated, class == Observer:
		if err != nil {
			s.refused(r.Context(), err)
			return nil, err
		}
	case err != nil: // everybody may use the route, or there is none
		return access.FromContext(r.Context()), nil
	}
	if class == Observer && !id.MayAll(access.Observe) {
		err := denied("%s may not observe all names", id.Name)
		s.refused(access.WithIdentity(r.Context(), id), err)
		return nil, err
	}
	if class == Public {
		return id, nil
	}
	return id, s.count(access.WithIdentity(r.Context(), id), r)
}

// denied returns the error of a client that may not do something.
func denied(format string, args ...any) error {
	return message.Error(&api.Reason{Kind: api.Reason_KIND_DENIED, Text: fmt.Sprintf(format, args...)})
}

// remote returns the address of a client. That of a trusted proxy is replaced by the one that the
// proxy names.
func (s *Server) remote(r *http.Request) string {
	host := hostOf(r.RemoteAddr)
	if !s.trusts(host) {
		return host
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- { // the last ones were added by the proxies that are nearest
		hop := strings.TrimSpace(hops[i])
		if _, err := netip.ParseAddr(hop); err != nil {
			break
		}
		if host = hop; !s.trusts(hop) {
			break
		}
	}
	return host
}

// trusts reports whether an address is that of a trusted proxy.
func (s *Server) trusts(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil &&
		slices.ContainsFunc(s.opt.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// inner returns the connection within wrappers such as that of TLS.
func inner(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}
