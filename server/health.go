package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

const (
	// checkLimit bounds a check of the store, and checkAge is how long its result is used: however
	// many probes there are, the store is called once a second.
	checkLimit = time.Second
	checkAge   = time.Second

	// checkTTL is that of the claim of a check.
	checkTTL = 2 * time.Second
)

var (
	errDraining   = errors.New("the server is about to end")
	errStoreFails = errors.New("the store does not answer")
)

// A health remembers whether the store answered.
type health struct {
	mu      sync.Mutex // held for a check, whose result all probes wait for
	name    string     // of the checks of this server
	checked time.Time
	err     error
}

// ready returns why the server is not ready, or nil: it can reach its store, and is not about to
// end. The details are in the log, because every client may call it.
func (s *Server) ready(ctx context.Context) error {
	if s.drained.Err() != nil {
		return errDraining
	}
	h := &s.op.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.checked.IsZero() && time.Since(h.checked) < checkAge {
		return h.err
	}
	if h.name == "" {
		h.name = rand.Text()
	}
	// The check is for all probes, and does not end with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkLimit)
	defer cancel()
	before := h.err
	err := checkStore(ctx, s.op.gate.Store, h.name)
	h.checked, h.err = time.Now(), nil
	if err != nil {
		h.err = errStoreFails
	}
	switch {
	case err != nil && before == nil:
		s.opt.Logger.Error("the server is not ready: the store does not answer", "err", err)
	case err == nil && before != nil:
		s.opt.Logger.Info("the server is ready again")
	}
	return h.err
}

// checkStore acquires and releases a claim that nobody else uses. A store that can only be read is
// not ready.
func checkStore(ctx context.Context, s driver.Store, name string) error {
	id := driver.ID{Key: names.Check.Key(name), Owner: rand.Text()}
	f := s.Features()
	ttl := max(checkTTL, f.MinTTL)
	if f.MaxTTL > 0 {
		ttl = min(ttl, f.MaxTTL)
	}
	res, err := s.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl, Holder: "readiness check"})
	if err != nil || !res.Granted { // it is refused if the last check could not release its claim
		return err
	}
	return s.Release(ctx, id)
}

// answerProbe answers a probe.
func answerProbe(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, err) // a probe that is gone needs no answer
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// A checker answers the health checks of gRPC.
type checker struct {
	*Server
	services []string
}

// Check returns whether the server is ready.
func (c checker) Check(ctx context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && !slices.Contains(c.services, r.Service) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such service"))
	}
	if c.ready(ctx) != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
