// Package dashboard has pages that show the locks of a store: who holds a lock, since when, who
// waits, why, and what a person can do.
//
// [New] returns a [Dashboard], an [http.Handler] for any URL prefix. The lock server serves it at
// /. A Go program with its own server can mount it at any path:
//
//	mux.Handle("/locks/", http.StripPrefix("/locks", dashboard.New(store, dashboard.Options{})))
//
// Without [Options.Authorize], every visitor may see all names, and nobody may break a lock.
//
// All pages share one scan of the store. It runs only while a page is open, at most every two
// seconds, and reads at most 10,000 claims. Rates, waits, charts and events are those of calls
// through a [Recorder] of this process, and the pages say so.
//
// Values of locks are never shown. Names, holders and notes are untrusted text: the pages escape
// them, and make invisible characters visible.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server/access"
)

// ErrLogIn is the error of [Options.Authorize] for a request without a valid identity. The pages
// answer with the log-in form, if there is one.
var ErrLogIn = errors.New("dashboard: not logged in")

// Options are the options of [New]. The zero Options show everything, read-only.
type Options struct {
	// Authorize returns who makes a request. The identity sees the names that it may observe or
	// acquire, and breaks those that it may break. An error is answered with the log-in form, or
	// with 401 if there is none. If Authorize is nil, everybody may observe all names, and nobody
	// may break one.
	Authorize func(*http.Request) (*access.Identity, error)

	// Sessions have the log-in form. Authorize calls [Sessions.Identity] for them. If they are nil,
	// the program has a log-in of its own.
	Sessions *Sessions

	// ReadOnly removes the Break buttons, and refuses the call.
	ReadOnly bool

	// Break ends claims: see [driver.Break]. The fence is never 0. If Break is nil, the store of
	// the dashboard is called.
	Break func(ctx context.Context, id *access.Identity, key string, upTo uint64, reason string) ([]driver.Claim, error)

	// Audit returns the latest entries of the audit log, the last one first, at most n of those for
	// which keep returns true. If Audit is nil, the page says how to get one.
	Audit func(n int, keep func(AuditEntry) bool) []AuditEntry

	// Warning is shown on every page, for example that the data is a demonstration.
	Warning string
}

// An AuditEntry is a line of the audit log.
type AuditEntry struct {
	At               time.Time
	Identity, Remote string
	Verb             string
	Kind, Name       string
	Fence            uint64
	Outcome, Reason  string
}

// A Dashboard is an [http.Handler].
type Dashboard struct {
	store    driver.Store
	recorder *Recorder // nil: nothing is known but the state of the store
	options  Options
	scanner  *scanner
	assets   *assets
	pages    *templates
	cross    *http.CrossOriginProtection
	key      []byte // of the tokens in forms

	found *deadlocks

	closed  context.Context
	close   context.CancelFunc
	streams chan struct{} // one for each open stream

	inspect inspection
	mu      sync.Mutex // guards parts
	parts   map[string]*part
}

// New returns the pages of a store. If the store is a [Recorder], the pages have rates, waits,
// charts and events.
func New(s driver.Store, o Options) *Dashboard {
	d := &Dashboard{
		store: s, options: o, scanner: &scanner{store: s}, assets: newAssets(), cross: http.NewCrossOriginProtection(),
		key: make([]byte, 32), streams: make(chan struct{}, maxStreams), parts: map[string]*part{},
	}
	d.recorder, _ = s.(*Recorder)
	if d.found = (&deadlocks{}); d.recorder != nil {
		d.found = &d.recorder.tasks
	}
	d.scanner.found, d.scanner.recorder = d.found, d.recorder
	d.pages = newTemplates(d.assets)
	_, _ = rand.Read(d.key) // it never fails
	if o.Sessions != nil {
		d.key = o.Sessions.derive("forms") // the form of one server may be sent to another
	}
	d.closed, d.close = context.WithCancel(context.Background())
	return d
}

// Close ends the streams of open pages, so that a server can end.
func (d *Dashboard) Close() { d.close() }

// policy is the Content-Security-Policy of all pages: no scripts, styles or requests but those of
// this origin, and none within the pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers one request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	path := r.URL.Path
	if path == "" { // the prefix without its slash: the links of the page would lead elsewhere
		whole, query, _ := strings.Cut(r.RequestURI, "?")
		if query != "" {
			query = "?" + query
		}
		//nolint:gosec // it is the address of the request itself, on this host
		http.Redirect(w, r, "/"+strings.TrimLeft(whole, "/")+"/"+query, http.StatusPermanentRedirect)
		return
	}
	if name, ok := strings.CutPrefix(path, "/static/"); ok {
		d.assets.serve(w, r, name)
		return
	}
	if err := d.cross.Check(r); err != nil {
		d.fail(w, r, nil, http.StatusForbidden, "This request came from a page of another origin.")
		return
	}
	post := r.Method == http.MethodPost
	switch {
	case !post && r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD, POST")
		d.fail(w, r, nil, http.StatusMethodNotAllowed, "The pages answer GET and POST.")
		return
	case path == "/login":
		d.logIn(w, r, post)
		return
	case path == "/logout" && post:
		d.logOut(w, r)
		return
	}
	id, err := d.identify(r)
	if err != nil {
		d.unknown(w, r, post)
		return
	}
	switch kind, name, isLock := lockOf(r); {
	case post && path == "/break":
		d.breakLock(w, r, id)
	case post:
		h.Set("Allow", "GET, HEAD")
		d.fail(w, r, id, http.StatusMethodNotAllowed, "This page answers GET.")
	case path == "/":
		d.show(w, r, id, "overview", d.overview)
	case path == "/locks" || path == "/locks/":
		d.show(w, r, id, "locks", d.locks)
	case isLock:
		d.show(w, r, id, "lock", func(p *page) any { return d.lock(p, kind, name) }) //nolint:contextcheck // the page has the request
	case path == "/graph":
		d.show(w, r, id, "graph", d.graph)
	case path == "/audit":
		d.show(w, r, id, "audit", d.audit)
	default:
		d.fail(w, r, id, http.StatusNotFound, "There is no such page.")
	}
}

// identify returns who makes a request.
func (d *Dashboard) identify(r *http.Request) (*access.Identity, error) {
	if d.options.Authorize == nil {
		return &access.Identity{Permissions: []access.Permission{{Names: "*", Verbs: access.Observe}}}, nil
	}
	return d.options.Authorize(r)
}

// unknown answers a request of nobody.
func (d *Dashboard) unknown(w http.ResponseWriter, r *http.Request, post bool) {
	if d.options.Sessions == nil || post || r.URL.Query().Has("live") {
		d.fail(w, r, nil, http.StatusUnauthorized, "You are not logged in.")
		return
	}
	http.Redirect(w, r, root(r)+"login", http.StatusSeeOther)
}

// sees reports whether an identity may see a name.
func sees(id *access.Identity, name string) bool {
	return id.May(access.Observe, name) || id.May(access.Acquire, name)
}

// breaks reports whether an identity may break the locks of a name here.
func (d *Dashboard) breaks(id *access.Identity, name string) bool {
	return d.options.Authorize != nil && !d.options.ReadOnly && id.May(access.Break, name)
}

// root returns the way from the page of a request to the root of the dashboard. With it the links
// of a page work under every prefix.
func root(r *http.Request) string {
	// A slash that is escaped is none to the browser, which resolves the links.
	if n := strings.Count(r.URL.EscapedPath(), "/") - 1; n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// send sends a page, compressed if the browser can read that.
func send(w http.ResponseWriter, r *http.Request, status int, body []byte, compress bool) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if compress && acceptsGzip(r) && len(body) > 1024 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body)
		_ = z.Close()
		body = b.Bytes()
		h.Set("Content-Encoding", "gzip")
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.ReplaceAll(q, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
