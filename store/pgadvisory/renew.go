package pgadvisory

import (
	"context"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/pgwire"
	"github.com/distlock/distlock/internal/sqlrow"
)

// Renew gives a held claim a new TTL.
func (s *Store) Renew(ctx context.Context, r driver.Renewal) (behind int, err error) {
	return 0, s.RenewAll(ctx, []driver.Renewal{r})[0].Err
}

// RenewAll renews claims with one statement on each connection that holds some of them.
func (s *Store) RenewAll(ctx context.Context, rs []driver.Renewal) []driver.Renewed {
	out := make([]driver.Renewed, len(rs))
	rounds := map[*link]*round{}
	s.mu.Lock()
	now := s.clock.Now()
	for i, r := range rs {
		out[i].Err = s.renewable(ctx, r, now)
		if out[i].Err != nil {
			continue
		}
		c := s.claims[r.ID]
		g := rounds[c.link]
		if g == nil {
			g = &round{operation: newOperation()}
			rounds[c.link] = g
		}
		g.claims = append(g.claims, renewal{claim: c, at: i, was: c.ttl, ttl: r.TTL})
		c.ttl = r.TTL
	}
	s.mu.Unlock()
	for l, g := range rounds {
		err := l.beatAll(g.claims, func(k *pgwire.Call) {
			_, _, err := l.answer(k)
			s.renewed(l, g, err)
		})
		if err != nil {
			s.renewed(l, g, err)
		}
	}
	for l, g := range rounds {
		err := l.Await(ctx, g.done)
		for i := range g.claims {
			r := &g.claims[i] // its err is written until the round is done, which may be after ctx
			if out[r.at].Err = err; err == nil {
				out[r.at].Err = r.err
			}
		}
	}
	return out
}

// A round is a statement that renews the claims on one connection.
type round struct {
	*operation
	claims []renewal
}

type renewal struct {
	claim    *claim
	at       int // index in the caller's list
	was, ttl time.Duration
	err      error
}

// renewable returns nil if there is a claim to renew. s.mu is held.
func (s *Store) renewable(ctx context.Context, r driver.Renewal, now time.Duration) error {
	if err := r.Validate(s.Features()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return errClosed
	}
	c := s.claims[r.ID]
	// A claim whose TTL has passed is not renewed, though the server may hold its lock for a moment
	// longer.
	if c == nil || c.state != held || now >= c.ends {
		return driver.ErrNotHeld
	}
	return nil
}

// renewed records the answer to a round. The claims of an ended connection are definitely lost.
func (s *Store) renewed(l *link, g *round, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range g.claims {
		r := &g.claims[i]
		switch {
		case r.claim.state != held || lost(err):
			r.err = driver.ErrNotHeld
		case err != nil:
			r.claim.ttl, r.err = max(r.was, r.ttl), sqlrow.Unavailable(err)
			l.failed(r.claim, r.claim.ttl)
		default:
			s.hold(r.claim, r.ttl)
		}
	}
	close(g.done)
}
