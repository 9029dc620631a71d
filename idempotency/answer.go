package idempotency

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

// An answer is what is remembered of a request.
type answer struct {
	Mark   string      `json:"mark"` // of the request that it answers
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	body   []byte
}

// encode writes the answer as a line of JSON and then the body, byte for byte.
func (a answer) encode() ([]byte, error) {
	b, err := json.Marshal(a)
	return append(append(b, '\n'), a.body...), err
}

func decode(b []byte) (a answer, err error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return a, errors.New("idempotency: an answer without a body")
	}
	a.body = body
	return a, json.Unmarshal(head, &a)
}

func (a *answer) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.body) // the client may be gone, and nobody else is there to tell
}

// A recorder holds an answer back until it is complete, or too large to be remembered.
type recorder struct {
	w       http.ResponseWriter
	header  http.Header // the handler's
	a       answer
	sent    bool // it was too large, and goes straight to the client
	written bool // the handler said something
}

func newRecorder(w http.ResponseWriter) *recorder {
	return &recorder{w: w, header: http.Header{}}
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if status < http.StatusOK || r.a.Status != 0 { // an interim answer is for one who waits now, and only the first final one counts
		return
	}
	r.a.Status, r.written = status, true
	r.a.Header = r.header.Clone() // what is set later does not count
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

// answer returns the answer, or an error if it is not to be remembered.
func (r *recorder) answer(ctx context.Context, mark string) (answer, error) {
	unserved := ctx.Err() != nil && !r.written // the handler gave up
	r.WriteHeader(http.StatusOK)
	switch {
	case r.sent:
		return r.a, distlock.ErrTooLarge
	case unserved, r.a.Status >= http.StatusInternalServerError:
		return r.a, errUnfit
	}
	r.a.Mark = mark
	return r.a, nil
}

// send sends what is held back.
func (r *recorder) send() {
	if !r.sent {
		r.sent = true
		r.a.send(r.w)
	}
}
