// Package server is the lock server. It gives distributed locks to clients without access to the
// store, over the network.
//
// [New] returns a [Server] of one store, with two services:
//
//   - Store has the calls of package driver, for programs in Go. Package store/remote is its
//     client, and is itself a store.
//   - Locks is for people, and for programs in other languages.
//
// The server keeps nothing that a lock depends on. Several servers can use one store at the same
// time, and a client may send each call to another server. If a server ends, no claim is lost. The
// server never renews a claim by itself. It never releases a claim that its caller may know of. The
// fencing tokens are those of the store, and the client counts its trust. Only Acquire of Locks
// waits: as long as its caller waits, and at most 25 s.
//
// Every answer contains the identity of the store. A call that names another store is refused. So a
// client that meets two stores behind one address gets an error, and not a second lock.
//
// The pages docs/server.md and docs/api.md describe the server for operators and for authors of
// clients.
package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server/access"
)

const (
	// callLimit bounds a call of the store.
	callLimit = 5 * time.Second

	// maxMessage is the largest message of a client. The largest request of the contract has 64 KiB
	// of value and 16 KiB of metadata.
	maxMessage = 256 << 10

	// minCompressed is the smallest answer that is compressed. Compressing a short one costs more
	// time than the whole call.
	minCompressed = 4 << 10

	// bodyLimit and writeLimit bound how long a client may take to send a message, its header
	// included, and to receive one.
	bodyLimit  = 10 * time.Second
	writeLimit = 10 * time.Second

	// answerLimit bounds a call that does not wait, with its message and its answer.
	answerLimit = bodyLimit + callLimit + writeLimit

	// identityAge is how old the identity may be before the store is inspected again.
	identityAge = 10 * time.Second
)

// ErrRefused means that a store must not be served.
var ErrRefused = errors.New("server: this store cannot be served")

// A Server serves one store. It is an [http.Handler].
type Server struct {
	op      operations
	opt     Options
	store   *guard // it checks the permissions of each call: see guard
	mux     *http.ServeMux
	routes  map[string]Class // by their patterns
	errors  *connect.ErrorWriter
	cross   *http.CrossOriginProtection // no page of a browser calls the server
	drained context.Context             // ends with Drain
	drain   context.CancelFunc

	identity   atomic.Pointer[string]
	inspected  atomic.Int64 // when the identity was read last, by time.Since(born)
	inspecting atomic.Bool
	born       time.Time
}

// New returns a server of a store. It returns an error that is [ErrRefused] if one owner must not
// use the store through two servers. The store must answer, because its identity is part of every
// answer. The caller closes the store when the server has ended. With nil options, the server has
// clients on loopback and on Unix sockets only.
func New(ctx context.Context, s driver.Store, opt *Options) (*Server, error) {
	if err := refusal(s.Features()); err != nil {
		return nil, err
	}
	v := &Server{mux: http.NewServeMux(), routes: map[string]Class{}, errors: connect.NewErrorWriter(), cross: http.NewCrossOriginProtection(), born: time.Now()}
	v.setOptions(opt)
	limited, err := v.operate(ctx, s)
	if err != nil {
		return nil, err
	}
	v.store = &guard{driver.Forward{Store: limited}, v}
	switch id, err := identify(ctx, s); {
	case err != nil:
		return nil, err
	case id == "":
		return nil, fmt.Errorf("%w: %s does not know its identity", ErrRefused, s.Features().Name)
	default:
		v.identity.Store(&id)
	}
	v.drained, v.drain = context.WithCancel(context.Background())
	pattern, store := api.NewStoreHandler(&service{v}, v.handlerOptions())
	people, locks := api.NewLocksHandler(&locks{v}, v.handlerOptions(), strict())
	routes := []Route{{pattern, Authenticated, store}, {people, Authenticated, v.typed(locks)}}
	for _, r := range slices.Concat(routes, v.operationRoutes(), v.opt.Routes) {
		if err := v.route(r); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// refusal returns why a store must not be served, or nil.
func refusal(f driver.Features) error {
	var lacks []string
	for _, need := range []struct {
		has  bool
		what string
	}{
		{f.Fence, "fencing tokens"}, {f.Queue, "a queue"}, {f.Value, "values"}, {f.Expiry, "an end of claims by their TTL"},
		{f.Detached, "claims that outlive a process"},
	} {
		if !need.has {
			lacks = append(lacks, need.what)
		}
	}
	switch {
	case len(lacks) > 0:
		return fmt.Errorf("%w: %s lacks %s", ErrRefused, f.Name, strings.Join(lacks, ", "))
	case !f.AnyServer:
		return fmt.Errorf("%w: %s may undo a grant that the same owner has received through another server meanwhile",
			ErrRefused, f.Name)
	}
	return nil
}

// identify returns a short form of the store's identity: it is a header of every message, and part
// of URLs. It is "" if the store does not know its identity.
func identify(ctx context.Context, s driver.Store) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	info, err := driver.Inspect(ctx, s)
	if err != nil || info.Identity == "" {
		return "", err
	}
	sum := sha256.Sum256([]byte(info.Identity))
	return hex.EncodeToString(sum[:8]), nil
}

// Identity returns the identity of the store, as it is in every answer and as store_id has it in
// the URL of a client.
func (s *Server) Identity() string { return *s.identity.Load() }

// Drain makes the server refuse Acquire, with an error that is definite, and ends the streams of
// Watch. Renew and Release are served as before. A server drains before it ends, so that its
// clients turn to another one.
func (s *Server) Drain() { s.drain() }

// HTTP returns an HTTP server with the protocols and limits that the API needs: HTTP/1.1 and
// HTTP/2, the latter also without TLS.
func (s *Server) HTTP() *http.Server {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10, IdleTimeout: 2 * time.Minute,
		ReadTimeout: bodyLimit, WriteTimeout: answerLimit, // see bounded
		ConnState: s.op.conns.changed, Protocols: &http.Protocols{},
		// A deadline of a stream does not end a write that the connection does not accept.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250, WriteByteTimeout: writeLimit},
	}
	h.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if id := peerOf(c); id != nil {
			return context.WithValue(ctx, peerKey{}, id)
		}
		return ctx
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetHTTP2(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	return h
}

// serve answers one call of a listener.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, l listener) {
	// Before everything else: the rest of a request that is refused is read too. Not every
	// connection has deadlines. One without them has no slow client either: it is a test.
	control := http.NewResponseController(w)
	if !bounded(r) {
		_ = control.SetReadDeadline(time.Now().Add(bodyLimit))
		_ = control.SetWriteDeadline(time.Now().Add(answerLimit))
	}
	id := s.Identity()
	s.refresh()
	w.Header().Set(message.StoreHeader, id)
	if why := s.foreign(r, l); why != "" {
		s.refuse(w, r, invalid(why))
		return
	}
	if want := r.Header.Get(message.StoreHeader); want != "" && want != id {
		s.refuse(w, r, message.Error(&api.Reason{
			Kind: api.Reason_KIND_OTHER_STORE, Text: fmt.Sprintf("this server has the store %s, and not %.64q", id, want),
		}))
		return
	}
	if err := s.cross.Check(r); err != nil {
		s.refuse(w, r, invalid("the call is from a page of another origin"))
		return
	}
	one := &call{control: control, listener: l, remote: s.remote(r)}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, one))
	one.request = r
	caller, err := s.admit(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	if r.URL.Path == api.StoreWatchProcedure && r.ProtoMajor > 1 { // HTTP/1.1 has no such streams
		_ = control.SetReadDeadline(time.Time{})
	}
	s.mux.ServeHTTP(w, r.WithContext(access.WithIdentity(r.Context(), caller))) //nolint:contextcheck // it is that of r
}

// bounded reports whether net/http has set the deadlines of a request, as the server of
// [Server.HTTP] has it do. With HTTP/2, a later change costs a message to another goroutine.
func bounded(r *http.Request) bool {
	h, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	return ok && h.ReadTimeout > 0 && h.WriteTimeout > 0
}

// A call is one call of a client. It is in the ctx of the call, with callKey.
type call struct {
	control  *http.ResponseController
	listener listener
	request  *http.Request
	remote   string // the address of the client
}

type callKey struct{}

// callOf returns the call of a ctx. Without one, it is a call of the server itself.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

func invalid(text string) error {
	return message.Error(&api.Reason{Kind: api.Reason_KIND_INVALID, Text: text})
}

// refuse answers a call with an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.op.metrics.refusal(r.Context(), err)
	if message.ReasonOf(err).GetKind() == api.Reason_KIND_UNAUTHENTICATED {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if err := s.errors.Write(w, r, err); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable) // it is no call of the API
	}
}

// refresh reads the identity again if it is old. It changes only if the store lost its data: then
// the claims that clients know are gone.
func (s *Server) refresh() {
	now := int64(time.Since(s.born))
	if now-s.inspected.Load() < int64(identityAge) || !s.inspecting.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.inspecting.Store(false)
		if id, err := identify(s.drained, s.store); err == nil && id != "" {
			s.identity.Store(&id)
		}
		s.inspected.Store(int64(time.Since(s.born)))
	}()
}
