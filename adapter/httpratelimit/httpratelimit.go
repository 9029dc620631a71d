// Package httpratelimit limits how often an HTTP handler is called, in all instances of a service
// together.
//
//	limiter, err := locker.Limiter(100, time.Minute)
//	...
//	mux.Handle("POST /orders", httpratelimit.Middleware(limiter, nil)(orders))
//
// A request over the limit gets 429 with Retry-After, and the handler is not called.
//
// The package does not protect against floods: every request costs a round trip to the store. A
// client that can choose its name, by many addresses or invented keys, has a separate limit for
// each name.
package httpratelimit

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/distlock/distlock"
)

// Options are the options of [Middleware]. The zero value of each field is its default.
type Options struct {
	// Key returns the name under which a request counts: a user, a tenant, an API key. Requests for
	// which it returns "" are not limited. The default is the address of the client, without its
	// port. Behind a proxy that is the address of the proxy.
	Key func(*http.Request) string

	// Weight returns how much a request counts: 1 by default. A request with a weight below 1 or
	// above the limit is refused with 500: it could never pass, and that is not the fault of the
	// client.
	Weight func(*http.Request) int64

	// Wait is how long a request may wait before it is refused. By default it does not wait.
	Wait time.Duration

	// PassOnError lets requests pass if the store fails. By default they are refused with 503.
	PassOnError bool

	// Log gets requests that are refused with 500. The default is [slog.Default].
	Log *slog.Logger

	// Refuse writes the response to a request that does not pass. The status is 429 over the limit
	// and 503 if the store failed, both with Retry-After set; 400 if the key is not a valid name,
	// and 500 if the weight can never pass. The default response is a line of plain text, without
	// the error of the store.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// Middleware lets requests pass as often as the limiter allows. It panics if the limiter is nil.
func Middleware(l *distlock.Limiter, o *Options) func(http.Handler) http.Handler {
	if l == nil {
		panic("httpratelimit: Middleware needs a limiter")
	}
	m := middleware{limiter: l}
	if o != nil {
		m.Options = *o
	}
	if m.Key == nil {
		m.Key = address
	}
	if m.Log == nil {
		m.Log = slog.Default()
	}
	if m.Refuse == nil {
		m.Refuse = refusePlainly
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	Options
	limiter *distlock.Limiter
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	name := m.Key(r)
	if name == "" {
		next.ServeHTTP(w, r)
		return
	}
	opts := []distlock.Option{distlock.MaxWait(m.Wait)}
	if m.Weight != nil {
		opts = append(opts, distlock.Weight(m.Weight(r)))
	}
	err := m.limiter.Wait(r.Context(), name, opts...)
	var limited *distlock.LimitError
	var wrong *distlock.ArgumentError
	switch {
	case err == nil:
		next.ServeHTTP(w, r)
	case errors.As(err, &limited):
		w.Header().Set("Retry-After", seconds(limited.Retry))
		m.Refuse(w, r, http.StatusTooManyRequests, err)
	case errors.As(err, &wrong) && wrong.What == "name":
		m.Refuse(w, r, http.StatusBadRequest, err)
	case errors.Is(err, distlock.ErrInvalid): // an error of this service: the weight
		m.Log.ErrorContext(r.Context(), "a request could not be counted", "error", err)
		m.Refuse(w, r, http.StatusInternalServerError, err)
	case m.PassOnError && r.Context().Err() == nil:
		next.ServeHTTP(w, r)
	default:
		w.Header().Set("Retry-After", "1")
		m.Refuse(w, r, http.StatusServiceUnavailable, err)
	}
}

// seconds formats a duration for Retry-After: rounded up, since a retry before that is too early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// address returns the address of the client.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func refusePlainly(w http.ResponseWriter, _ *http.Request, status int, _ error) {
	http.Error(w, http.StatusText(status), status)
}
