package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/distlock/distlock/dashboard"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
)

// pages adds the dashboard to the routes of a server. It returns the store that records what the
// pages show.
func (s *service) pages(store driver.Store, opt *server.Options) (driver.Store, error) {
	recorder := dashboard.NewRecorder(store)
	o := dashboard.Options{ReadOnly: s.readOnly, Authorize: s.authorize, Break: s.breakFor, Audit: s.latest.entries}
	if s.traffic {
		o.Warning = "This is a demonstration: its locks are in memory, and nobody works under them."
	}
	if s.audit == "none" {
		o.Audit = nil
	}
	if s.tokenFile != nil {
		sessions, err := dashboard.NewSessions(s.tokens+".session-key", logIn{s.tokenFile})
		if err != nil {
			return nil, usage("--tokens: %w", err)
		}
		o.Sessions = sessions
	}
	s.dashboard = dashboard.New(recorder, o)
	opt.Routes = append(opt.Routes, server.Route{Pattern: "/", Class: server.Public, Handler: s.dashboard})
	s.sessions = o.Sessions
	return recorder, nil
}

// authorize returns who opens a page: the session of a person, or the identity of any other client.
func (s *service) authorize(r *http.Request) (*access.Identity, error) {
	if s.sessions != nil {
		if id, err := s.sessions.Identity(r); err == nil {
			return id, nil
		}
	}
	return s.handler.Caller(r)
}

// breakFor breaks a lock for a person, by the rules of every other client: permissions and audit.
func (s *service) breakFor(ctx context.Context, id *access.Identity, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	ctx, cancel := context.WithTimeout(access.WithIdentity(ctx, id), shutdownLimit)
	defer cancel()
	return driver.Break(ctx, s.handler.Guarded(), key, upTo, reason)
}

// logIn has the tokens of a file for sessions.
type logIn struct{ file *tokens.File }

// LogIn returns the id of a token.
func (l logIn) LogIn(token string) (string, error) {
	if _, err := l.file.Check(token); err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(token, "_")
	id, _, _ := strings.Cut(rest, "_")
	return id, nil
}

// Identity returns the identity of a token with an id.
func (l logIn) Identity(id string) (*access.Identity, error) {
	who, err := l.file.Lookup(id)
	if err != nil {
		return nil, err
	}
	return &access.Identity{Name: who.Name, Permissions: append(who.Permissions, l.file.Permissions(who.Name)...)}, nil
}

// maxLatest is how many entries of the audit the pages have.
const maxLatest = 1000

// maxBreaks is how many entries about breaks the pages have, however many others came after them.
const maxBreaks = 200

// latest has the latest entries of the audit. The audit writes its lines to it, and to its file.
type latest struct {
	mu   sync.Mutex
	ring []dashboard.AuditEntry
	next int

	breaks []numbered // the newest last
}

// numbered is an entry with its number.
type numbered struct {
	dashboard.AuditEntry
	n int
}

var _ io.Writer = (*latest)(nil)

// Write adds a line of the audit.
func (l *latest) Write(line []byte) (int, error) {
	var e server.Entry
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ring == nil {
		l.ring = make([]dashboard.AuditEntry, maxLatest)
	}
	entry := dashboard.AuditEntry{
		At: e.Time, Identity: e.Identity, Remote: e.Remote, Verb: e.Verb, Kind: e.Kind, Name: e.Name, Fence: e.Fence, Outcome: e.Outcome, Reason: e.Reason,
	}
	l.ring[l.next%maxLatest] = entry
	if e.Verb == "break" {
		l.breaks = append(l.breaks[max(0, len(l.breaks)-maxBreaks+1):], numbered{entry, l.next})
	}
	l.next++
	return len(line), nil
}

// entries returns the latest entries, the last one first. Those about breaks go further back.
func (l *latest) entries(n int, keep func(dashboard.AuditEntry) bool) (out []dashboard.AuditEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.next - 1; i >= 0 && i >= l.next-maxLatest && len(out) < n; i-- {
		if e := l.ring[i%maxLatest]; keep(e) {
			out = append(out, e)
		}
	}
	for _, e := range slices.Backward(l.breaks) {
		if e.n < l.next-maxLatest && len(out) < n && keep(e.AuditEntry) {
			out = append(out, e.AuditEntry)
		}
	}
	return out
}
