package server

import "github.com/distlock/distlock/driver"

// Guarded returns the store as the callers of the server have it: each call needs an identity in
// its ctx, is checked against the permissions of that identity, and is recorded in the audit. It is
// for pages that the server has in its routes.
func (s *Server) Guarded() driver.Store { return s.store }

// pushed passes a grant that the store has pushed to a watcher on to a store that records calls:
// the owner need not call Acquire.
func (g *guard) pushed(id driver.ID, w driver.Wake) {
	if r, ok := g.Store.(interface{ Pushed(driver.ID, driver.Wake) }); ok && w.Granted {
		r.Pushed(id, w)
	}
}
