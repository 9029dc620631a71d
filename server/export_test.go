package server

import "maps"

// Routes returns the table of routes.
func (s *Server) Routes() map[string]Class { return maps.Clone(s.routes) }

// HandleUnclassified adds a handler past the table.
func (s *Server) HandleUnclassified(r Route) { s.mux.Handle(r.Pattern, r.Handler) }
