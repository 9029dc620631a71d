// Package httpidempotency lets HTTP clients repeat a request without its being done twice. The first request with an Idempotency-Key is
// served and its answer is remembered; a repetition gets that answer.
//
// It does not promise that a request is served at most once: a process that is lost after serving a request and before
// recording the answer leaves nothing to remember, and the repetition is served again. See distlock.Once.
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

// The headers of requests and of answers.
const (
	Header   = "Idempotency-Key"      // of a request: a word that the client makes up for it, in quotes or without
	Replayed = "Idempotency-Replayed" // of an answer: "true" if it was remembered
)

// Why a request is not served.
var (
	ErrMissing  = errors.New("idempotency: the header " + Header + " is missing")                  // 400
	ErrKey      = errors.New("idempotency: the header " + Header + " is not one word of 1 to 255") // 400
	ErrBody     = errors.New("idempotency: the body of the request is too large")                  // 413
	ErrInFlight = errors.New("idempotency: a request with this key is being served")               // 409
	ErrReused   = errors.New("idempotency: the key was used for another request")                  // 422
	ErrStore    = errors.New("idempotency: it cannot be found out whether the request was served") // 503
	errForm     = errors.New("idempotency: the form of the request cannot be read")                // 500
	errUnfit    = errors.New("idempotency: answers that fail are not remembered")                  // nobody sees it
)

// Options are the options of Middleware. Scope must be set, and the zero value of every other field
// is good.
type Options struct {
	// Name keeps the keys of services apart that share a store: "http" by default.
	Name string

	// Scope says who the client is: the same key of two clients is two keys. It must be set. Return
	// the user or account that the request was authenticated as, and not the token: a client that
	// repeats a request with a refreshed token is the same client, and must not be served again.
	// Clients in one scope can read each other's answers, cookies included: SharedScope is for
	// those that may.
	Scope func(*http.Request) string

	// Optional serves requests without the header as if there were no middleware.
	Optional bool

	MaxBody int64        // bytes of a request's body; 0: 1 MiB
	Log     *slog.Logger // told of answers that could not be remembered; nil: slog.Default

	// Refuse answers a request that is not served. By default the answer is a line of plain text, and does not tell how
	// the store failed.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, err error)
}

// SharedScope is a Scope for clients that may read each other's answers: those of one owner, or
// behind a proxy that makes the keys.
func SharedScope(*http.Request) string { return "" }

// Middleware returns what makes handlers idempotent: answers are remembered for as long as keep. GET, HEAD, OPTIONS and TRACE pass
// as they are. The error is that of distlock.NewOnce, or distlock.ErrInvalid if there is no Scope.
//
// Of requests with the same key at the same time one is served, and the others get 409. A key that comes again with another method,
// host, URL or body gets 422. An answer that asks for another try (401, 403, 408, 409, 425, 429,
// 500 and above), or of more than 64 KiB with its headers, is not remembered: the repetition is
// served again.
//
// A handler around this one that reads the body has to put it back, or all bodies are alike. A form that it has parsed counts as it was parsed.
//
// The context of a served request ends if its lease is lost. The handler's answer is held back until it returns or has
// written 64 KiB; it cannot be flushed or hijacked.
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
		return nil, fmt.Errorf("%w: idempotency: Options.Scope is missing: it says who the client of a request is", distlock.ErrInvalid)
	}
	if m.o.MaxBody < 0 {
		return nil, fmt.Errorf("idempotency: MaxBody is %d", m.o.MaxBody)
	}
	if m.o.MaxBody == 0 {
		m.o.MaxBody = 1 << 20
	}
	m.o.MaxBody = min(m.o.MaxBody, math.MaxInt64-1) // one byte more is read, to see that it is too many
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
		case bad != nil: // it may tell where this machine keeps files
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

// serve serves a request, or answers it as it was answered before. The mark tells it from other requests.
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
			m.o.Log.WarnContext(r.Context(), "an answer could not be remembered", "name", name, "error", err)
		}
		own.send()
	case errors.Is(err, distlock.ErrHeld):
		m.o.Refuse(w, r, http.StatusConflict, ErrInFlight)
	case err != nil:
		m.o.Log.WarnContext(r.Context(), "a request could not be served once", "name", name, "error", err)
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

// formOf is a short word for the form that was parsed before, and is not in the body any more. It is empty if there is none.
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

// digestOf is a short word for a file, which may be too large for memory.
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

// digest is a short word for some texts, that no other texts have.
func digest(texts ...string) string {
	h := sha256.New()
	for _, s := range texts {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}
