package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
)

//go:embed templates/*.html
var sources embed.FS

// templates are the pages.
type templates struct{ byName map[string]*template.Template }

func newTemplates(a *assets) *templates {
	t := &templates{byName: map[string]*template.Template{}}
	funcs := template.FuncMap{
		"asset": a.url, "text": text, "holder": holder, "span": span, "brief": brief, "clock": clock, "exact": exact, "number": number, "count": count,
		"noun":     func(k names.Kind) string { return nouns[k] },
		"machine":  func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"millis":   func(t time.Time) int64 { return t.UnixMilli() },
		"lockPath": lockPath,
		"add":      func(a, b int) int { return a + b },
		"pair":     func(p *page, v any) map[string]any { return map[string]any{"P": p, "V": v} },
	}
	for _, name := range []string{"overview", "locks", "lock", "graph", "audit", "login", "error"} {
		t.byName[name] = template.Must(template.New(name).Funcs(funcs).
			ParseFS(sources, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return t
}

// A page is the data of a template.
type page struct {
	Root     string // the way to the root of the dashboard
	Address  string // of the server, as the browser sees it
	Name     string
	Title    string
	Identity string
	LogOut   bool
	Warning  string
	Now      time.Time
	Live     string // the address of the live part; "": it has none
	Fragment bool   // only the live part is rendered: the script fills in how long ago a time was
	Snap     *snapshot
	Store    string
	Since    time.Time // of the Recorder; zero if there is none
	Body     any

	id     *access.Identity
	r      *http.Request
	query  url.Values
	secret bool // the page has a token of a form: it is not compressed
	status int
}

// newPage returns a page without a body.
func (d *Dashboard) newPage(r *http.Request, id *access.Identity, name string) *page {
	p := &page{
		Root: root(r), Address: address(r), Name: name, Warning: d.options.Warning, Now: time.Now(), Store: d.store.Features().Name,
		id: id, r: r, query: r.URL.Query(), status: http.StatusOK, Snap: &snapshot{},
	}
	if id != nil {
		p.Identity = id.Name
		p.LogOut = d.options.Sessions != nil && d.options.Sessions.has(r)
	}
	if d.recorder != nil {
		p.Since = d.recorder.born
	}
	return p
}

// plainHost matches the hosts that a command for a shell can have as they are.
var plainHost = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// address returns the address of the server as the browser of a request sees it.
func address(r *http.Request) string {
	scheme, host := "http", r.Host
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	if !plainHost.MatchString(host) {
		host = "localhost:7520"
	}
	return scheme + "://" + host
}

// show answers with a page, or with the stream of its live part.
func (d *Dashboard) show(w http.ResponseWriter, r *http.Request, id *access.Identity, name string, body func(*page) any) {
	if r.URL.Query().Has("live") && r.Method == http.MethodGet {
		d.stream(w, r, name, body)
		return
	}
	p := d.newPage(r, id, name)
	live := r.URL.Query()
	live.Set("live", "1")
	p.Live = "?" + live.Encode()
	p.Body = body(p)
	d.send(w, p)
}

// send renders a page and sends it.
func (d *Dashboard) send(w http.ResponseWriter, p *page) {
	b, err := d.render(p, "layout")
	if err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	send(w, p.r, p.status, b, !p.secret)
}

// render returns a template of the page.
func (d *Dashboard) render(p *page, part string) ([]byte, error) {
	var b bytes.Buffer
	if err := d.pages.byName[p.Name].ExecuteTemplate(&b, part, p); err != nil {
		return nil, fmt.Errorf("dashboard: page %s: %w", p.Name, err)
	}
	return b.Bytes(), nil
}

// fail answers with an error for people.
func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, id *access.Identity, status int, why string) {
	p := d.newPage(r, id, "error")
	p.Title, p.Body, p.status = http.StatusText(status), why, status
	d.send(w, p)
}
