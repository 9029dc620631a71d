// Package remote is a store behind a lock server: distlock serve. Every kind of distributed lock
// works through the server, with the fencing tokens and the queue of the server's own store.
//
//	http://host:7520                  one server
//	http://host1:7520,host2:7520      several servers on one store
//	https://host:7520?tls_ca=ca.pem   with TLS, and the certificate of your own authority
//	https://host:7520?tls_cert=cert.pem&tls_key=key.pem   the client has a certificate
//	unix:/run/distlock.sock           a server on this host, by its Unix socket
//
// With several servers, the store uses one server until it fails, and then the next. All servers
// must have the same store. If a server has another store, the call fails with an
// [OtherStoreError], which names both stores.
//
// The outcome of a call is definite only if a lock server answered. After a timeout, a broken
// connection or an answer of a proxy, the outcome is unknown, as package driver describes. If no
// connection could be made, the store is unavailable.
//
// [Options].Token is the token of this client, for a server that authenticates its clients. The
// default is the variable DISTLOCK_TOKEN, or the file that DISTLOCK_TOKEN_FILE names. A token is
// never part of a URL.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
)

const (
	// callLimit bounds a request whose ctx has no earlier end. A call makes more than one if a
	// server drains, or does not know its token any more. A server bounds the call of its store by
	// half of it.
	callLimit = 10 * time.Second

	// firstLimit bounds the first call to one of several servers. Nothing is held yet, so the next
	// one can be called soon.
	firstLimit = 2 * time.Second

	// maxRenewals and maxBytes bound one message of RenewAll. A server accepts 500 renewals and 256
	// KiB.
	maxRenewals = 500
	maxBytes    = 200 << 10
)

// A Store is a store behind a lock server. Its methods are safe for concurrent use.
type Store struct {
	servers  []*server
	current  atomic.Int64 // index of the server in use
	client   api.StoreClient
	features driver.Features
	identity identity
	token    *credentials
	watcher  watcher

	acquires batcher[*api.AcquireRequest, *api.AcquireResponse]
	releases batcher[*api.ID, *api.ReleaseResponse]
}

// Open connects to the server of a URL. One of the servers must answer, because the features of a
// store never change. An error that is [ErrURL] means that the URL is wrong.
func Open(ctx context.Context, text string, opt *Options) (*Store, error) {
	if opt == nil {
		opt = &Options{}
	}
	target, err := parse(text)
	if err != nil {
		return nil, err
	}
	token, err := newCredentials(target, opt)
	if err != nil {
		return nil, err
	}
	s := &Store{token: token}
	s.identity.pinned = target.id != ""
	s.identity.id = target.id
	for _, addr := range target.addrs {
		s.servers = append(s.servers, newServer(target, addr, opt))
	}
	s.client = newClient(s)
	s.watcher.init(s)
	m, err := s.describe(ctx)
	if err != nil {
		_ = s.Close() // it returns no error
		return nil, err
	}
	s.features = message.FeaturesOf(m)
	s.features.Name = "remote"
	s.batch(int(m.GetMaxCalls()))
	return s, nil
}

// describe returns the features of the store. It changes nothing, so it calls each server until one
// answers.
func (s *Store) describe(ctx context.Context) (m *api.FeaturesResponse, err error) {
	limit := callLimit
	if len(s.servers) > 1 {
		limit = firstLimit
	}
	for range s.servers {
		limited, cancel := context.WithTimeout(ctx, limit)
		m, err = call(limited, s, s.client.Features, &api.FeaturesRequest{})
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return m, err
}

// newClient returns the client of a store. The server need not compress: messages are small, and
// the time matters.
func newClient(s *Store) api.StoreClient {
	return api.NewStoreClient(sender{s}, "http://distlock", connect.WithAcceptCompression("gzip", nil, nil))
}

// Close ends all watches and closes the connections. Claims stay until their TTL ends.
func (s *Store) Close() error {
	s.watcher.close()
	for _, v := range s.servers {
		v.close()
	}
	s.acquires.close()
	s.releases.close()
	return nil
}

// Features returns the features of the server's store, with the name "remote".
func (s *Store) Features() driver.Features { return s.features }

// Acquire grants or refuses a claim.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	if err := cmp.Or(ctx.Err(), r.Validate(s.features)); err != nil {
		return driver.Result{}, err
	}
	s.identity.uses(max(r.TTL, r.QueueTTL)) // a pushed grant is trusted for QueueTTL
	m, err := s.acquires.do(ctx, message.Request(r))
	switch {
	case err != nil:
		return driver.Result{}, err
	case m.GetGranted() && m.GetFence() == 0 && s.features.Fence:
		return driver.Result{}, errors.New("remote: only a part of an answer arrived: a grant without its fence")
	}
	return message.ResultOf(m), nil
}

// Renew gives a claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	out := s.RenewAll(ctx, []driver.Renewal{r})
	return out[0].Behind, out[0].Err
}

// RenewAll renews many claims, with one call for some hundreds of them.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	var part []int // indexes of the renewals in the next call
	var calls sync.WaitGroup
	bytes := 0
	flush := func() {
		if send := part; len(send) > 0 {
			calls.Go(func() { s.renew(ctx, rs, send, out) })
		}
		part, bytes = nil, 0
	}
	for i, r := range rs {
		if out[i].Err = cmp.Or(ctx.Err(), r.Validate(s.features)); out[i].Err != nil {
			continue
		}
		if !r.Keep { // nobody holds a record
			s.identity.uses(r.TTL)
		}
		size := len(r.Key) + len(r.Owner) + len(r.Value) + 32
		if len(part) == maxRenewals || bytes+size > maxBytes {
			flush()
		}
		part, bytes = append(part, i), bytes+size
	}
	if len(part) == len(rs) { // the usual case: no goroutine
		s.renew(ctx, rs, part, out)
	} else {
		flush()
	}
	calls.Wait()
	return out
}

// renew makes one call for the renewals at some indexes.
func (s *Store) renew(ctx context.Context, rs []driver.Renewal, at []int, out []driver.Renewed) {
	request := &api.RenewRequest{Renewals: make([]*api.Renewal, len(at))}
	for n, i := range at {
		request.Renewals[n] = message.Renewal(rs[i])
	}
	m, err := short(ctx, s, s.client.Renew, request)
	if err == nil && len(m.GetRenewed()) != len(at) {
		err = fmt.Errorf("remote: %d answers to %d renewals", len(m.GetRenewed()), len(at))
	}
	for n, i := range at {
		switch {
		case err != nil:
			out[i].Err = err
		case m.GetRenewed()[n].GetReason() != nil:
			out[i].Err = message.ErrorOf(m.GetRenewed()[n].GetReason())
		default:
			out[i].Behind = int(m.GetRenewed()[n].GetBehind())
		}
	}
}

// Release ends a claim, or removes a queue entry.
func (s *Store) Release(ctx context.Context, id driver.ID) error {
	if len(id.Key) > driver.MaxKey || len(id.Owner) > driver.MaxOwner {
		return driver.ErrNotHeld
	}
	m := message.ID(id)
	s.acquires.settle(ctx, func(r *api.AcquireRequest) bool { return proto.Equal(r.GetId(), m) })
	_, err := s.releases.do(ctx, m)
	return err
}

// Show returns the claims on a key and its queue.
func (s *Store) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	if len(key) > driver.MaxKey {
		return nil, nil
	}
	m, err := call(ctx, s, s.client.Show, &api.ShowRequest{Key: []byte(key)})
	return message.ClaimsOf(m.GetClaims()), err
}

// List yields the claims and queues of all keys with a prefix.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Claim, error] {
	return func(yield func(driver.Claim, error) bool) {
		if len(prefix) > driver.MaxKey {
			return
		}
		list, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.client.List(list, &api.ListRequest{Prefix: []byte(prefix)})
		if err != nil {
			yield(driver.Claim{}, s.failure(ctx, err))
			return
		}
		defer func() { _ = stream.Close() }() // it was only read
		for stream.Receive() {
			for _, m := range stream.Msg().GetClaims() {
				if !yield(message.ClaimOf(m), nil) {
					return
				}
			}
		}
		if err := stream.Err(); err != nil {
			yield(driver.Claim{}, s.failure(ctx, err))
		}
	}
}

// Break ends claims of others.
func (s *Store) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	if len(key) > driver.MaxKey {
		return nil, nil
	}
	m, err := call(ctx, s, s.client.Break, &api.BreakRequest{Key: []byte(key), UpToFence: upTo, Reason: []byte(reason)})
	return message.ClaimsOf(m.GetClaims()), err
}

// Watch returns a channel that is ready when id may be granted. All watches of a store share one
// stream to a server.
func (s *Store) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	return s.watcher.watch(ctx, id)
}

// renewed reads the token again, after a server refused one, and reports whether there is another.
func (s *Store) renewed(refused string) bool {
	return s.token.refresh() == nil && s.token.now() != refused
}

// call makes one call.
func call[Q, A any](ctx context.Context, s *Store, verb func(context.Context, *Q) (*A, error), request *Q) (*A, error) {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	m, err := send(limited, s, verb, request)
	return m, s.failure(ctx, err)
}

// short makes one call with a short answer. Its limit is that of its connection: see [direct].
func short[Q, A any](ctx context.Context, s *Store, verb func(context.Context, *Q) (*A, error), request *Q) (*A, error) {
	if s.servers[0].short[0] == nil {
		return call(ctx, s, verb, request)
	}
	m, err := send(ctx, s, verb, request)
	return m, s.failure(ctx, err)
}

// send sends one call. A server that is about to end, or has another store, has changed nothing, so
// the next one is used. A server that does not know the client has changed nothing either: the
// token is read again.
func send[Q, A any](ctx context.Context, s *Store, verb func(context.Context, *Q) (*A, error), request *Q) (*A, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var answer *A
	var err error
	fresh := false // the token was read again for this call
	for left := len(s.servers); left > 0; {
		used, token := s.current.Load(), s.token.now()
		if answer, err = verb(ctx, request); err == nil {
			return answer, nil
		}
		kind := message.ReasonOf(err).GetKind()
		if kind == api.Reason_KIND_UNAUTHENTICATED && !fresh && s.renewed(token) {
			fresh = true
			continue
		}
		if kind != api.Reason_KIND_DRAINING && kind != api.Reason_KIND_OTHER_STORE {
			break
		}
		s.next(used)
		left--
	}
	return nil, err
}

// failure returns the error of a call. Only an answer of a server is definite, and a connection
// that could not be made.
func (s *Store) failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var dial *dialError
	reason := message.ReasonOf(err)
	switch other := s.identity.found(); {
	case reason.GetKind() == api.Reason_KIND_OTHER_STORE && other != nil:
		return other
	case reason != nil:
		return message.ErrorOf(reason)
	case ctx.Err() != nil:
		return fmt.Errorf("remote: %w", ctx.Err())
	case errors.As(err, &dial):
		return fmt.Errorf("remote: %w: %w", driver.ErrUnavailable, dial)
	}
	var answer *connect.Error
	if errors.As(err, &answer) {
		return fmt.Errorf("remote: no answer of a lock server: %s", answer.Message())
	}
	return fmt.Errorf("remote: no answer of a lock server: %w", err)
}

var _ interface {
	driver.Watcher
	driver.Shower
	driver.Lister
	driver.AllRenewer
	driver.Breaker
	driver.Inspector
} = (*Store)(nil)
