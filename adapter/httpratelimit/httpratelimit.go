// Package httpratelimit limits how often an HTTP handler is called, across all instances of a service.
//
//	limiter, err := locker.Limiter(100, time.Minute)
//	...
//	mux.Handle("POST /orders", ratelimit.Middleware(limiter, nil)(orders))
//
// A request over the limit is answered with 429 and Retry-After, and the handler does not see it.
//
// It does not protect against floods: every request costs a round trip to the store. Whoever makes names at will, by addresses
// or keys of their own choice, has as many limits.
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

// Options are the options of Middleware. The zero value of each field is its default.
type Options struct {
	// Key names what a request counts for: a user, a tenant, an API key. Requests for which it returns "" are not limited. By default it is
	// the address that the request comes from, without its port. Behind a proxy that is the proxy's.
	Key func(*http.Request) string

	// Weight is how much a request counts: 1 by default. A request that it gives less than 1 or more than the limit is refused with 500: no wait would
	// let it pass, and its sender is not to blame.
	Weight func(*http.Request) int64

	// Wait is how long a request waits for its turn before it is refused. By default it does not.
	Wait time.Duration

	// PassOnError lets requests pass that the store could not be asked about. By default they are refused with 503.
	PassOnError bool

	// Log is told of requests that are refused with 500. By default it is slog.Default.
	Log *slog.Logger

	// Refuse answers a request that does not pass. The status is 429 over the limit, 503 if the store could not be asked, both with Retry-After
	// set; 400 if the key is no name, and 500 if the weight can never pass. By default the answer is a line of plain text, which does not tell how
	// the store failed.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// Middleware lets requests pass as often as the limiter allows. It panics if the limiter is nil.
func Middleware(l *distlock.Limiter, o *Options) func(http.Handler) http.Handler {
	if l == nil {
		panic("ratelimit: Middleware needs a limiter")
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
	switch {
	case err == nil:
		next.ServeHTTP(w, r)
	case errors.As(err, &limited):
		w.Header().Set("Retry-After", seconds(limited.Retry))
		m.Refuse(w, r, http.StatusTooManyRequests, err)
	case errors.Is(err, distlock.ErrInvalidName):
		m.Refuse(w, r, http.StatusBadRequest, err)
	case errors.Is(err, distlock.ErrInvalid): // what this service made of the request
		m.Log.ErrorContext(r.Context(), "a request could not be counted", "error", err)
		m.Refuse(w, r, http.StatusInternalServerError, err)
	case m.PassOnError && r.Context().Err() == nil:
		next.ServeHTTP(w, r)
	default:
		w.Header().Set("Retry-After", "1")
		m.Refuse(w, r, http.StatusServiceUnavailable, err)
	}
}

// seconds is a duration as Retry-After has it: rounded up, since earlier is too early.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// address is where a request comes from.
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
