package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/distlock/distlock/internal/names"
)

// Header is the HTTP header that carries a proof.
const Header = "Distlock-Fence"

// ErrMissing says that a request has no header Distlock-Fence.
var ErrMissing = errors.New("fence: the header " + Header + " is missing")

// A Register remembers the highest fence of every lock. All instances of a service share it, and it
// outlives them.
type Register interface {
	// Advance makes the fence of the lease the highest of its lock, and returns nil when that is
	// durable. If there is a higher one the error is [ErrStale], and nothing is changed. After
	// other errors the outcome is unknown.
	Advance(ctx context.Context, l Lease) error
}

// MiddlewareOptions are the options of [Middleware].
type MiddlewareOptions struct {
	// Optional lets requests without the header pass, while not all callers send one yet. Their
	// context has no proof.
	Optional bool

	// Refuse answers a refused request. The status is 409 for a stale fence, 400 for a proof that
	// is malformed, not exclusive or of another lock, 428 without a proof, and 503 if the register
	// failed. By default the answer is a line of plain text, which does not contain the error of
	// the register.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// Middleware passes requests that carry the proof of a lease of the right lock, with a fence that
// is not stale. Wrap the handlers that change something:
//
//	guarded := fence.Middleware(register, func(r *http.Request) string {
//		return "invoice/" + r.PathValue("id")
//	}, nil)
//	mux.Handle("PUT /invoice/{id}", guarded(put))
//
// The function returns the name of the lock that protects the resource of a request, or [NameOf] if
// it is not a plain lock. A proof of any other lock is refused, and its fence is not remembered: a
// client cannot block another resource by its own, higher fence. If the function returns "" the
// request is refused. Middleware panics if the register or the function is nil.
//
// The handler gets the proof by [FromContext]. A request that has passed may be paused before it
// acts, and a request with a higher fence may overtake it. The register only refuses requests that
// arrive late. A handler that must not be overtaken passes the proof to a [Row] or a [Table] in the
// transaction that makes the change.
func Middleware(reg Register, key func(*http.Request) string, opt *MiddlewareOptions) func(http.Handler) http.Handler {
	if reg == nil || key == nil {
		panic("fence: Middleware needs a register and a key")
	}
	if opt == nil {
		opt = &MiddlewareOptions{}
	}
	refuse := opt.Refuse
	if refuse == nil {
		refuse = refusePlainly
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, err := proofOf(r, key)
			switch {
			case errors.Is(err, ErrMissing) && opt.Optional:
				next.ServeHTTP(w, r)
				return
			case errors.Is(err, ErrMissing):
				refuse(w, r, http.StatusPreconditionRequired, err)
				return
			case err != nil:
				refuse(w, r, http.StatusBadRequest, err)
				return
			}
			switch err := reg.Advance(r.Context(), p); {
			case errors.Is(err, ErrStale):
				refuse(w, r, http.StatusConflict, err)
			case err != nil:
				refuse(w, r, http.StatusServiceUnavailable, err)
			default:
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, p)))
			}
		})
	}
}

// proofOf returns the proof of a request, if it is of the right lock.
func proofOf(r *http.Request, key func(*http.Request) string) (Proof, error) {
	values := r.Header.Values(Header)
	switch len(values) {
	case 0:
		return Proof{}, ErrMissing
	case 1:
	default:
		return Proof{}, fmt.Errorf("%w: the request has the header %s %d times", ErrInvalid, Header, len(values))
	}
	p, err := Parse(values[0])
	if err != nil {
		return Proof{}, err
	}
	if want := key(r); p.key != want || want == "" {
		return Proof{}, fmt.Errorf("%w: a proof of the lock %s, which does not protect this", ErrInvalid, names.Quote(p.key))
	}
	return p, nil
}

func refusePlainly(w http.ResponseWriter, _ *http.Request, status int, err error) {
	text := err.Error()
	if status == http.StatusServiceUnavailable {
		text = "fence: the fence cannot be checked now" // errors of a database are not for clients
	}
	http.Error(w, text, status)
}

// SetHeader sets the header of a request to the proof of a lease.
func SetHeader(h http.Header, l Lease) error {
	p, err := Of(l)
	if err != nil {
		return err
	}
	h.Set(Header, p.Proof())
	return nil
}

// Transport returns a transport that sends the proof in the context of a request: see [NewContext].
// A handler that calls another service with the context of its own request passes its proof on. Use
// the transport only for services that check proofs of that lock. If base is nil it is
// [http.DefaultTransport].
//
// The transport does not see the lease in the context of distlock.Locker.Do: put its proof there
// with NewContext. A request without a proof in its context is sent without the header, and
// [Middleware] refuses it with [ErrMissing] unless proofs are optional.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

type transport struct{ base http.RoundTripper }

// RoundTrip sends a copy: a transport must not change the request that it is given.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if p, ok := FromContext(r.Context()); ok {
		r = r.Clone(r.Context())
		r.Header.Set(Header, p.Proof())
	}
	return t.base.RoundTrip(r)
}
