package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// The vendored files are those of the releases that docs/adr names.
func TestVendored(t *testing.T) {
	for name, want := range map[string]string{
		"htmx.min.js":   "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f", // htmx.org 4.0.0, dist/htmx.min.js
		"hx-sse.min.js": "8a834680c4000a9034d79228872372a92e140c810a075cb6d4a76690dfc13085", // htmx.org 4.0.0, dist/ext/hx-sse.min.js
		"uplot.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f", // uplot 1.6.32, dist/uPlot.iife.min.js
		"uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04", // uplot 1.6.32, dist/uPlot.min.css
		"dagre.min.js":  "3152d214941a5df3a3d4c079dfa338c3cd7a6c0d4c1b4c3a2fdb6bba6f6facf9", // @dagrejs/dagre 3.1.1, dist/dagre.min.js
	} {
		text, err := static.ReadFile("static/vendor/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s was changed: %x", name, sum)
		}
	}
}

// Every page has the policy, and no script or style of its own.
func TestPages(t *testing.T) {
	s := NewRecorder(mem.New())
	hold(t, s, "deploy", "ci-1")
	queue(t, s, "deploy", "ci-2")
	d := New(s, Options{})
	for path, want := range map[string]string{
		"/": "Most contended", "/locks": "deploy", "/locks/lock/deploy": "Held by ci-1.", "/graph": "ci-2", "/audit": "keeps no audit log",
		"/locks?q=zzz": "No lock matches", "/locks/lock/other": "Nobody holds it", "/none": "no such page",
	} {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		body := w.Body.String()
		if !strings.Contains(body, want) {
			t.Errorf("%s has no %q: %s", path, want, body)
		}
		if w.Header().Get("Content-Security-Policy") != policy || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s has the headers %v", path, w.Header())
		}
		for _, inline := range []string{"<style", " style=", "onclick", "<script>"} {
			if strings.Contains(body, inline) {
				t.Errorf("%s contains %q", path, inline)
			}
		}
	}
}

// Without Authorize nobody breaks a lock. Nor with ReadOnly.
func TestDashboard_readOnly(t *testing.T) {
	s := mem.New()
	fence := hold(t, s, "deploy", "ci-1").Fence
	writes := New(s, Options{Authorize: everything})
	for name, o := range map[string]Options{"no Authorize": {}, "ReadOnly": {Authorize: everything, ReadOnly: true}} {
		d := New(s, o)
		if _, body := get(t, d, "/locks/lock/deploy"); strings.Contains(body, "<form method=\"post\"") {
			t.Errorf("%s: there is a form", name)
		}
		form := formOf(t, writes, "/locks/lock/deploy", "deploy", "x")
		form.Set("token", d.formToken(access.Everything("test"), "deploy"))
		if w := post(t, d, "/break", form); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	if claims, err := s.Show(t.Context(), "deploy"); err != nil || len(claims) != 1 || claims[0].Fence != fence {
		t.Errorf("%v, %v", claims, err)
	}
}

// A page shows the names that its identity may observe or acquire, and no others: not in lists, not
// in events, not in counts.
func TestDashboard_permissions(t *testing.T) {
	s := NewRecorder(mem.New())
	for _, name := range []string{"team-a/x", "team-b/secret"} {
		hold(t, s, name, "ci-of-"+name)
		queue(t, s, name, "waiter-of-"+name)
	}
	notice := fmt.Sprintf(`{"key":"team-a/x","fence":1,"wants":"team-b/secret","weight":%d,"limit":%d}`, driver.Whole, driver.Whole)
	acquire(t, s, driver.Request{
		ID: driver.ID{Key: "~wait/" + driver.Tag(ownerOf("ci-of-team-a/x", "team-a/x")), Owner: "n"}, Weight: 1, Limit: driver.Whole, TTL: time.Minute, Value: []byte(notice), Task: "t", Holder: "h",
	})
	audit := []AuditEntry{{Identity: "token:b", Verb: "acquire", Kind: "lock", Name: "team-b/secret", Outcome: "granted"}, {Identity: "token:b", Verb: "observe", Outcome: "denied"}}
	o := Options{
		Authorize: as("token:a", access.Permission{Names: "team-a/", Verbs: access.Observe}),
		Audit: func(n int, keep func(AuditEntry) bool) (out []AuditEntry) {
			for _, e := range audit {
				if keep(e) {
					out = append(out, e)
				}
			}
			return out
		},
	}
	d, all := New(s, o), New(s, Options{Authorize: everything, Audit: o.Audit})
	for _, path := range []string{"/", "/locks", "/locks?q=team", "/graph", "/audit", "/locks/lock/team-a/x", "/locks/lock/team-b/secret"} {
		_, body := get(t, d, path)
		body = strings.ReplaceAll(body, "team-b/secret</bdi><span class=\"kind lock\">lock</span></h1>", "") // of the address
		body = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(body, "<title>team-b/secret", ""), "example.com team-b/secret</code>", ""), "example.com team-b/secret --", "")
		if strings.Contains(body, "secret") || strings.Contains(body, "token:b") {
			t.Errorf("%s reveals a foreign name: %s", path, body)
		}
	}
	if _, body := get(t, d, "/"); !strings.Contains(body, "claim on 1 name<") {
		t.Errorf("the counts are not those of the identity: %s", body)
	}
	for _, path := range []string{"/", "/locks", "/graph", "/audit"} {
		if _, body := get(t, all, path); !strings.Contains(body, "secret") {
			t.Errorf("%s does not show all names to an identity that sees them", path)
		}
	}
}

// Break needs the permission on the name.
func TestBreak_permission(t *testing.T) {
	s := mem.New()
	hold(t, s, "team-a/x", "ci")
	all := New(s, Options{Authorize: everything})
	form := formOf(t, all, "/locks/lock/team-a/x", "team-a/x", "x")
	for _, p := range []access.Permission{{Names: "*", Verbs: access.Acquire | access.Observe}, {Names: "team-b/", Verbs: access.All}} {
		d := New(s, Options{Authorize: as("a", p)})
		d.key = all.key
		form.Set("token", d.formToken(&access.Identity{Name: "a"}, "team-a/x"))
		if w := post(t, d, "/break", form); w.Code != http.StatusForbidden {
			t.Errorf("%v: %d", p, w.Code)
		}
	}
	if claims, _ := s.Show(t.Context(), "team-a/x"); len(claims) != 1 {
		t.Error("the lock was broken")
	}
}

// Break ends the claim that was shown, and never a later one.
func TestBreak_fence(t *testing.T) {
	s := NewRecorder(mem.New())
	hold(t, s, "deploy", "first")
	d := New(s, Options{Authorize: everything})
	form := formOf(t, d, "/locks/lock/deploy", "deploy", "first is gone")
	if err := s.Release(t.Context(), driver.ID{Key: "deploy", Owner: ownerOf("first", "deploy")}); err != nil {
		t.Fatal(err)
	}
	hold(t, s, "deploy", "second")
	if w := post(t, d, "/break", form); w.Code != http.StatusSeeOther || !strings.HasSuffix(w.Header().Get("Location"), "locks/lock/deploy?broken=0") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Location"))
	}
	if claims, _ := s.Show(t.Context(), "deploy"); len(claims) != 1 || claims[0].Holder != "second" {
		t.Fatalf("the next holder was hit: %+v", claims)
	}
	form = formOf(t, d, "/locks/lock/deploy", "deploy", "second is gone")
	if w := post(t, d, "/break", form); !strings.HasSuffix(w.Header().Get("Location"), "locks/lock/deploy?broken=1") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Location"))
	}
	if claims, _ := s.Show(t.Context(), "deploy"); len(claims) != 0 {
		t.Errorf("the lock is held: %+v", claims)
	}
	_, err := s.Renew(t.Context(), driver.Renewal{ID: driver.ID{Key: "deploy", Owner: ownerOf("second", "deploy")}, TTL: time.Minute})
	if broken := (*driver.BrokenError)(nil); !errors.As(err, &broken) || broken.Reason != "second is gone" {
		t.Errorf("the holder gets %v", err)
	}
	if e := s.Events(1, func(e Event) bool { return e.Type == EventBroken }); len(e) != 1 || e[0].Reason != "second is gone" {
		t.Errorf("%+v", e)
	}
}

// A form is refused if it is not from a page that its identity was shown, if the fence is missing,
// or if the user typed something else.
func TestBreak_form(t *testing.T) {
	s := mem.New()
	hold(t, s, "deploy", "ci")
	hold(t, s, "other", "ci")
	d := New(s, Options{Authorize: everything})
	elsewhere := New(s, Options{Authorize: as("elsewhere", access.Permission{Names: "*", Verbs: access.All})})
	elsewhere.key = d.key
	for name, tt := range map[string]struct {
		d      http.Handler
		change func(url.Values)
		header []string
		want   int
	}{
		"no token":         {d, func(f url.Values) { f.Del("token") }, nil, http.StatusForbidden},
		"token of another": {elsewhere, func(url.Values) {}, nil, http.StatusForbidden},
		"another lock":     {d, func(f url.Values) { f.Set("name", "other"); f.Set("confirm", "other") }, nil, http.StatusForbidden},
		"another origin":   {d, func(url.Values) {}, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"no fence":         {d, func(f url.Values) { f.Set("fence", "0") }, nil, http.StatusBadRequest},
		"all fences":       {d, func(f url.Values) { f.Del("fence") }, nil, http.StatusBadRequest},
		"another name":     {d, func(f url.Values) { f.Set("confirm", "deploi") }, nil, http.StatusUnprocessableEntity},
		"no reason":        {d, func(f url.Values) { f.Set("reason", " ") }, nil, http.StatusUnprocessableEntity},
		"long reason":      {d, func(f url.Values) { f.Set("reason", strings.Repeat("x", 501)) }, nil, http.StatusUnprocessableEntity},
	} {
		form := formOf(t, d, "/locks/lock/deploy", "deploy", "gone")
		tt.change(form)
		if w := post(t, tt.d, "/break", form, tt.header...); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.want)
		}
	}
	for _, key := range []string{"deploy", "other"} {
		if claims, _ := s.Show(t.Context(), key); len(claims) != 1 {
			t.Errorf("%s was broken", key)
		}
	}
	if code, _ := get(t, d, "/break?kind=lock&name=deploy&fence=9"); code != http.StatusNotFound {
		t.Errorf("GET breaks: %d", code)
	}
}

// hostile are names that the library or a browser would not like. Stores accept them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `' onmouseover='alert(1)`, `{{.}}`, `</title><script>alert(1)</script>`,
	"..", ".", "../..", "a/../b", "a//b", "/", "//evil.example", "%2f", "%2e%2e", "a%2Fb", "a?b=c", "a#b", "a&b=c", "a b", " a ", "a  b",
	"\u202eevil", "\u200b", "\u3164", "\u2800", "\ufeff", "\x00", "a\nb", "a\r\ndata: x\n\n", "\xff\xfe", "\u0000", strings.Repeat("x", 512), strings.Repeat("🔒", 100),
	"~~tilde", `C:\x`, "locks", "login", "static/app.js", "a+b", "a;b", "ä", "名前", "[x](y)", "${x}", "`id`", "$(id)", "-rf", "--", "*", "\u0301\u0301\u0301",
}

// Each hostile name has a page of its own, and is shown as text.
func TestPages_hostile(t *testing.T) {
	s := NewRecorder(mem.New())
	for i, name := range hostile {
		hold(t, s, names.Lock.Key(name), fmt.Sprintf("holder-%d-%s", i, "<b>"))
		queue(t, s, names.Lock.Key(name), "waiter"+name)
	}
	d := New(s, Options{Authorize: everything})
	mux := http.NewServeMux() // a router that cleans paths
	mux.Handle("/any/prefix/", http.StripPrefix("/any/prefix", d))
	for i, name := range hostile {
		path := "/any/prefix/" + lockPath(names.Lock, name)
		code, body := get(t, mux, path)
		if want := fmt.Sprintf("holder-%d-&lt;b&gt;", i); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%q at %s: %d, without %s", name, path, code, want)
		}
	}
	for _, path := range []string{"/", "/locks", "/graph", "/locks/lock/?name=" + url.QueryEscape(hostile[0])} {
		_, body := get(t, d, path)
		for _, raw := range []string{"<script>alert", "<img src=x", "\u202e", "\u200b", "\u3164", "\x00", "<b>\"", "' onmouseover='"} {
			if strings.Contains(body, raw) {
				t.Errorf("%s contains %q", path, raw)
			}
		}
	}
}

// All pages share one scan in two seconds, and nobody scans while no page is open.
func TestScanner_shared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		hold(t, s, "deploy", "ci")
		d := New(s, Options{})
		time.Sleep(time.Minute)
		if n := s.lists.Load(); n != 0 {
			t.Errorf("%d scans without a page", n)
		}
		for range 20 {
			for _, path := range []string{"/", "/locks", "/graph", "/locks/lock/deploy"} {
				get(t, d, path)
			}
			time.Sleep(time.Second)
		}
		if n := s.lists.Load(); n != 10 {
			t.Errorf("%d scans in 20 s, want 10", n)
		}
		if n := s.shows.Load(); n != 0 {
			t.Errorf("%d reads of a single lock", n)
		}
	})
}

// With more than 10,000 claims the pages say so, and a search by prefix and the page of a lock look
// by themselves.
func TestScanner_many(t *testing.T) {
	s := newCounted()
	for i := range 11_000 {
		hold(t, s, fmt.Sprintf("n/%05d", i), "h")
	}
	d := New(s, Options{})
	_, body := get(t, d, "/locks")
	if !strings.Contains(body, "there are more than 10,000 claims") || strings.Count(body, "<tr") != pageRows+1 {
		t.Errorf("%d rows: %.300s", strings.Count(body, "<tr"), body)
	}
	seen := d.scanner.snapshot(t.Context(), scope{}).byKey
	missing := ""
	for i := range 11_000 {
		if name := fmt.Sprintf("n/%05d", i); seen[name] == nil {
			missing = name
			break
		}
	}
	if missing == "" {
		t.Fatal("all claims were read")
	}
	if _, body := get(t, d, "/locks/lock/"+missing); !strings.Contains(body, "Held by h.") {
		t.Errorf("%s is not shown", missing)
	}
	if _, body := get(t, d, "/locks?q="+url.QueryEscape(missing)); !strings.Contains(body, ">"+missing+"<") {
		t.Errorf("%s is not found", missing)
	}
}

// A store that fails leaves the pages as they were, and they say so.
func TestScanner_fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		hold(t, s, "deploy", "ci")
		d := New(s, Options{})
		get(t, d, "/locks")
		err := errors.New("no connection <b>")
		s.fail.Store(&err)
		time.Sleep(3 * time.Second)
		_, body := get(t, d, "/locks")
		if !strings.Contains(body, "no connection &lt;b&gt;") || !strings.Contains(body, ">deploy<") {
			t.Error(body)
		}
	})
}

// The prefix without its slash leads to the page with it.
func TestDashboard_prefix(t *testing.T) {
	h := http.StripPrefix("/admin", New(mem.New(), Options{}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin?span=24h", nil))
	if got := w.Header().Get("Location"); w.Code != http.StatusPermanentRedirect || got != "/admin/?span=24h" {
		t.Errorf("%d %s", w.Code, got)
	}
}

// Links lead to the root of the dashboard from every page.
func TestDashboard_root(t *testing.T) {
	d := New(mem.New(), Options{})
	for path, want := range map[string]string{
		"/": "./", "/locks": "./", "/locks/": "../", "/locks/lock/a": "../../", "/locks/lock/a/b": "../../../", "/locks/lock/a%2Fb": "../../", "/locks/lock/?name=a%2Fb": "../../",
	} {
		if _, body := get(t, d, path); !strings.Contains(body, `<a class="brand" href="`+want+`">`) {
			t.Errorf("%s does not lead to %s", path, want)
		}
	}
}

// A first load of the overview has at most 80 kB, compressed.
func TestAssets_size(t *testing.T) {
	s := NewRecorder(mem.New())
	for i := range 100 {
		hold(t, s, fmt.Sprintf("n/%d", i), "h")
		queue(t, s, fmt.Sprintf("n/%d", i), "w")
	}
	d := New(s, Options{})
	for page, files := range map[string][]string{
		"/":      {"live.js", "vendor/uplot.min.js", "vendor/uplot.min.css", "app.css", "icon.svg"},
		"/graph": {"live.js", "vendor/dagre.min.js", "app.css", "icon.svg"},
	} {
		total := 0
		for _, path := range append([]string{page}, files...) {
			if path != page {
				path = "/" + d.assets.url(path)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" {
				t.Errorf("%s: %d %v", path, w.Code, w.Header())
			}
			total += w.Body.Len()
		}
		t.Logf("%s: %d bytes", page, total)
		if total > 80_000 {
			t.Errorf("%s has %d bytes", page, total)
		}
	}
}
