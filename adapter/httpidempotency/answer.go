package httpidempotency

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
)

// An answer is the stored response to a request.
type answer struct {
	mark   string // the digest of the request
	status int
	header http.Header
	body   []byte
}

// A head is an answer without its body, in its stored form.
type head struct {
	Mark   string              `json:"mark"`
	Status int                 `json:"status"`
	Header map[string][][]byte `json:"header"` // bytes, since they need not be UTF-8
}

// encode returns the answer as a line of JSON, followed by the body.
func (a answer) encode() ([]byte, error) {
	h := head{a.mark, a.status, map[string][][]byte{}}
	for name, values := range a.header {
		h.Header[name] = nil // a header without a value stops the server from setting one
		for _, v := range values {
			h.Header[name] = append(h.Header[name], []byte(v))
		}
	}
	b, err := json.Marshal(h)
	return append(append(b, '\n'), a.body...), err
}

func decode(b []byte) (answer, error) {
	line, body, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return answer{}, errors.New("httpidempotency: a stored response without a body")
	}
	var h head
	if err := json.Unmarshal(line, &h); err != nil {
		return answer{}, err
	}
	a := answer{h.Mark, h.Status, http.Header{}, body}
	for name, values := range h.Header {
		a.header[name] = nil
		for _, v := range values {
			a.header[name] = append(a.header[name], string(v))
		}
	}
	return a, nil
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client may be gone, and there is nowhere to report that
}

// A recorder buffers a response until it is complete, or too large to be stored.
type recorder struct {
	w       http.ResponseWriter
	header  http.Header // the handler's
	a       answer
	sent    bool // too large: further writes go straight to the client
	written bool // the handler has written
}

func newRecorder(w http.ResponseWriter) *recorder {
	return &recorder{w: w, header: http.Header{}}
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if status < http.StatusOK || r.a.status != 0 { // 1xx is not stored, and only the first final status counts
		return
	}
	r.a.status, r.written = status, true
	r.a.header = r.header.Clone() // headers that are set later do not count
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.sent {
		return r.w.Write(b)
	}
	r.a.body = append(r.a.body, b...)
	if len(r.a.body) > driver.MaxValue {
		r.send()
	}
	return len(b), nil
}

// answer returns the response, with an error if it must not be stored.
func (r *recorder) answer(ctx context.Context, mark string) (answer, error) {
	unserved := ctx.Err() != nil && !r.written // the handler gave up
	r.WriteHeader(http.StatusOK)
	switch {
	case r.sent:
		return r.a, distlock.ErrTooLarge
	case unserved, passing(r.a.status):
		return r.a, errUnfit
	}
	r.a.mark = mark
	return r.a, nil
}

// passing reports whether a status is temporary: the client should retry, with other rights or
// later. If such a response were stored, every retry would get it.
func passing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// send sends the buffered response.
func (r *recorder) send() {
	if !r.sent {
		r.sent = true
		r.a.send(r.w)
	}
}
