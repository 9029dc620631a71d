// Package httpidempotency lets HTTP clients safely repeat a request. The handler handles the first
// request with an Idempotency-Key, and its response is stored. A repeated request gets the stored
// response.
//
// The package does not guarantee that a request is handled at most once. If a process dies after it
// has handled a request, and before it has stored the response, the next repetition is handled
// again. See [distlock.Once].
package httpidempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/distlock/distlock"
)

// The headers of requests and responses.
const (
	Header   = "Idempotency-Key"      // of a request: a word that the client chooses, with or without quotes
	Replayed = "Idempotency-Replayed" // of a response: "true" if it was stored
)

// The reasons why a request is not handled, with their status codes.
var (
	ErrMissing  = errors.New("httpidempotency: the header " + Header + " is missing")                             // 400
	ErrKey      = errors.New("httpidempotency: the header " + Header + " is not one word of 1 to 255 characters") // 400
	ErrBody     = errors.New("httpidempotency: the body of the request is too large")                             // 413
	ErrInFlight = errors.New("httpidempotency: a request with this key is being handled")                         // 409
	ErrReused   = errors.New("httpidempotency: the key was used for another request")                             // 422
	ErrStore    = errors.New("httpidempotency: unknown whether the request was handled: the store failed")        // 503
	errForm     = errors.New("httpidempotency: the form of the request cannot be read")                           // 500
	errUnfit    = errors.New("httpidempotency: responses with this status are not stored")                        // internal
)

// Options are the options of [Middleware]. Scope must be set. The zero value of every other field
// is its default.
type Options struct {
	// Name separates the keys of services that share a store: "http" by default.
	Name string

	// Scope returns the client: the same key of two clients is two keys. It must be set. Return the
	// user or account that the request was authenticated as, and not the token: a client that
	// repeats a request with a refreshed token is the same client, and its request must not be
	// handled again. Clients in one scope can read each other's responses, cookies included:
	// [SharedScope] is for clients that may.
	Scope func(*http.Request) string

	// Optional passes requests without the header to the handler, as if there were no middleware.
	Optional bool

	MaxBody int64        // bytes of a request's body; 0: 1 MiB
	Log     *slog.Logger // gets responses that could not be stored; nil: slog.Default

	// Refuse writes the response to a request that is not handled. The default response is a line
	// of plain text, without the error of the store.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// SharedScope is a Scope for clients that may read each other's responses: clients of one owner, or
// clients behind a proxy that makes the keys.
func SharedScope(*http.Request) string { return "" }

// Middleware returns a function that makes handlers idempotent: it stores responses for keep. GET,
// HEAD, OPTIONS and TRACE requests pass unchanged. The error is that of [distlock.NewOnce], or
// [distlock.ErrInvalid] if there is no Scope.
//
// Of several requests with the same key at the same time one is handled, and the others get 409. A
// key that comes again with another method, host, URL or body gets 422. A response that suggests a
// retry (401, 403, 408, 409, 425, 429, 500 and above), or that has more than 64 KiB with its
// headers, is not stored: the repetition is handled again.
//
// A handler around this one that reads the body must put it back, or all bodies look alike. A form
// that it has parsed counts in its parsed form.
//
// The context of a request ends if its lease is lost. The response is buffered until the handler
// returns or has written 64 KiB; it cannot be flushed or hijacked.
func Middleware(l *distlock.Locker, keep time.Duration, o *Options, opts ...distlock.Option) (func(http.Handler) http.Handler, error) {
	once, err := distlock.NewOnce(l, keep, &distlock.OnceOptions[answer]{Encode: answer.encode, Decode: decode}, opts...)
	if err != nil {
		return nil, err
	}
	m := &middleware{once: once}
	if o != nil {
		m.o = *o
	}
	if m.o.Name == "" {
		m.o.Name = "http"
	}
	if m.o.Scope == nil {
		return nil, &distlock.ArgumentError{What: "Options.Scope of httpidempotency", Why: "it is missing: it returns the client of a request"}
	}
	if m.o.MaxBody < 0 {
		return nil, &distlock.ArgumentError{What: "Options.MaxBody of httpidempotency", Why: fmt.Sprint(m.o.MaxBody, " is negative")}
	}
	if m.o.MaxBody == 0 {
		m.o.MaxBody = 1 << 20
	}
	m.o.MaxBody = min(m.o.MaxBody, math.MaxInt64-1) // one more byte is read, to detect a body that is too large
	if m.o.Log == nil {
		m.o.Log = slog.Default()
	}
	if m.o.Refuse == nil {
		m.o.Refuse = func(w http.ResponseWriter, _ *http.Request, status int, err error) {
			http.Error(w, err.Error(), status)
		}
	}
	return m.wrap, nil
}

type middleware struct {
	once *distlock.Once[answer]
	o    Options
}

func (m *middleware) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
			next.ServeHTTP(w, r)
			return
		}
		key, err := keyOf(r)
		if errors.Is(err, ErrMissing) && m.o.Optional {
			next.ServeHTTP(w, r)
			return
		}
		if err != nil {
			m.o.Refuse(w, r, http.StatusBadRequest, err)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, m.o.MaxBody+1))
		form, bad := formOf(r)
		switch {
		case err != nil:
			m.o.Refuse(w, r, http.StatusBadRequest, err)
		case bad != nil: // the error may contain paths of this machine: log it, do not return it
			m.o.Log.WarnContext(r.Context(), "a form could not be read", "error", bad)
			m.o.Refuse(w, r, http.StatusInternalServerError, errForm)
		case int64(len(body)) > m.o.MaxBody:
			m.o.Refuse(w, r, http.StatusRequestEntityTooLarge, ErrBody)
		default:
			name, mark := m.o.Name+"/"+digest(m.o.Scope(r), key), digest(r.Method, strings.ToLower(r.Host), r.URL.RequestURI(), string(body), form)
			m.serve(w, r, next, name, mark, body)
		}
	})
}

// serve handles a request, or sends its stored response. The mark distinguishes it from other
// requests with the same key.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler, name, mark string, body []byte) {
	var own *recorder
	a, err := m.once.Do(r.Context(), name, func(ctx context.Context) (answer, error) {
		own = newRecorder(w)
		served := r.WithContext(ctx)
		served.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(own, served)
		return own.answer(ctx, mark)
	}, distlock.MaxWait(0))
	switch {
	case own != nil:
		if err != nil && !errors.Is(err, errUnfit) {
			m.o.Log.WarnContext(r.Context(), "a response could not be stored", "name", name, "error", err)
		}
		own.send()
	case errors.Is(err, distlock.ErrHeld):
		m.o.Refuse(w, r, http.StatusConflict, ErrInFlight)
	case err != nil:
		m.o.Log.WarnContext(r.Context(), "a request could not be handled once", "name", name, "error", err)
		m.o.Refuse(w, r, http.StatusServiceUnavailable, ErrStore)
	case a.mark != mark:
		m.o.Refuse(w, r, http.StatusUnprocessableEntity, ErrReused)
	default:
		w.Header().Set(Replayed, "true")
		a.send(w)
	}
}

// keyOf returns the key of a request.
func keyOf(r *http.Request) (string, error) {
	all := r.Header.Values(Header)
	if len(all) == 0 {
		return "", ErrMissing
	}
	key := strings.TrimSpace(all[0])
	if n := len(key); n >= 2 && key[0] == '"' && key[n-1] == '"' { // a string of structured fields
		key = key[1 : n-1]
	}
	visible := strings.IndexFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
	if len(all) > 1 || key == "" || len(key) > 255 || !visible {
		return "", ErrKey
	}
	return key, nil
}

// formOf returns a digest of a form that was parsed before and is no longer in the body. It is
// empty if there is none.
func formOf(r *http.Request) (string, error) {
	if len(r.PostForm) == 0 && r.MultipartForm == nil {
		return "", nil
	}
	texts := []string{r.PostForm.Encode()} // with the values of a multipart form
	if r.MultipartForm != nil {
		for _, name := range slices.Sorted(maps.Keys(r.MultipartForm.File)) {
			for _, file := range r.MultipartForm.File[name] {
				content, err := digestOf(file)
				if err != nil {
					return "", err
				}
				texts = append(texts, name, file.Filename, content)
			}
		}
	}
	return digest(texts...), nil
}

// digestOf returns a digest of a file, which may be too large for memory.
func digestOf(file *multipart.FileHeader) (string, error) {
	f, err := file.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// digest returns a digest of several texts. Other texts have another digest.
func digest(texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
