package server

import (
	"log/slog"
	"net/http"
	"net/netip"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/distlock/distlock/server/access"
)

// An Authenticator is one way in which clients prove their identity: a token, a certificate. It
// returns nil and no error if a request has no credentials of its kind. An error means that the
// credentials are wrong, expired or revoked; its text goes to the client. An error that is
// [driver.ErrUnavailable] means that they could not be checked.
//
// The server calls it for every call of the API, and again every second for a call that lasts
// longer, such as Watch. So it must be fast, and safe for concurrent use.
type Authenticator func(*http.Request) (*access.Identity, error)

// Options are the options of a [Server].
type Options struct {
	// Authenticate are the ways in which clients prove their identity. With at least one of them,
	// every client of every TCP listener must prove its identity, also on loopback.
	Authenticate []Authenticator

	// Permissions returns the permissions of an identity by its name. They come in addition to
	// those that an Authenticator returns. Nil: no others.
	Permissions func(identity string) []access.Permission

	// Local is the identity of clients on loopback if Authenticate is empty. Nil: "local", which
	// may acquire and observe all names.
	Local *access.Identity

	// Anonymous is the identity of clients at other addresses if Authenticate is empty. Nil: their
	// calls are refused.
	Anonymous *access.Identity

	// Hosts are further names of this server. If Authenticate is empty, the server answers on
	// loopback only to localhost, 127.0.0.1, [::1] and these, and to no proxy. At other addresses
	// it answers only to these and to IP addresses, and to trusted proxies; if Hosts is nil, to
	// all.
	Hosts []string

	// TrustedProxies are the addresses of proxies whose X-Forwarded-For goes to the audit.
	TrustedProxies []netip.Prefix

	// Audit receives what clients did. Nil: nothing is recorded, and Break is refused.
	Audit *Audit

	// Routes are served next to the API.
	Routes []Route

	// Limits bound what clients may do.
	Limits Limits

	// Meter receives the metrics of the server. Nil: there are none.
	Meter metric.MeterProvider

	// Tracer receives a span for each call of the API. Nil: there are none.
	Tracer trace.TracerProvider

	// Logger receives what an operator should know. Nil: nothing is logged.
	Logger *slog.Logger
}

// A Class says which clients may use a route. A [Route] must have one.
type Class uint8

// The classes of routes.
const (
	_             Class = iota
	Public              // every client, also without an identity
	Authenticated       // clients with an identity; permissions are about names
	Observer            // clients that may observe all names
)

// A Route is a handler for a pattern of [http.ServeMux]. The identity of the client is in the ctx
// of its requests: see [access.FromContext].
type Route struct {
	Pattern string
	Class   Class
	Handler http.Handler
}
