package dashboard

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// tokens has one token.
type tokens struct{ revoked bool }

func (t *tokens) LogIn(token string) (string, error) {
	if token != "dl_7_secret" || t.revoked {
		return "", errors.New("wrong")
	}
	return "7", nil
}

func (t *tokens) Identity(id string) (*access.Identity, error) {
	if id != "7" || t.revoked {
		return nil, errors.New("revoked")
	}
	return access.Everything("token:ann"), nil
}

func newSessions(t *testing.T) (*Sessions, *tokens) {
	t.Helper()
	file := &tokens{}
	s, err := NewSessions(filepath.Join(t.TempDir(), "key"), file)
	if err != nil {
		t.Fatal(err)
	}
	return s, file
}

// cookieOf logs in, and returns the cookie.
func cookieOf(t *testing.T, d http.Handler, token string) *http.Cookie {
	t.Helper()
	w := post(t, d, "/login", url.Values{"token": {token}})
	if cookies := w.Result().Cookies(); len(cookies) == 1 {
		return cookies[0]
	}
	return nil
}

func TestSessions(t *testing.T) {
	s, file := newSessions(t)
	store := mem.New()
	hold(t, store, "deploy", "ci")
	d := New(store, Options{Sessions: s, Authorize: s.Identity})
	status := func(cookie string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/locks", nil)
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "distlock-session", Value: cookie})
		}
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "deploy") != (w.Code == http.StatusOK) {
			t.Errorf("%d with %s", w.Code, w.Body)
		}
		return w.Code
	}
	if got := status(""); got != http.StatusSeeOther {
		t.Errorf("without a session: %d", got)
	}
	if c := cookieOf(t, d, "dl_7_wrong"); c != nil {
		t.Errorf("a wrong token got %v", c)
	}
	c := cookieOf(t, d, "dl_7_secret")
	if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 12*3600 || strings.Contains(c.Value, "secret") {
		t.Fatalf("the cookie is %v", c)
	}
	if got := status(c.Value); got != http.StatusOK {
		t.Errorf("with a session: %d", got)
	}
	forged := []string{
		"", "v1", "v1.Nw.9999999999." + strings.Repeat("A", 43), c.Value + "x", strings.Replace(c.Value, "v1.", "v2.", 1),
		s.sign("7", time.Now().Add(-time.Second)), s.sign("8", time.Now().Add(time.Hour)),
		(&Sessions{key: make([]byte, 32)}).sign("7", time.Now().Add(time.Hour)),
	}
	for _, value := range forged {
		if got := status(value); got != http.StatusSeeOther {
			t.Errorf("cookie %q: %d", value, got)
		}
	}
	file.revoked = true
	if got := status(c.Value); got != http.StatusSeeOther {
		t.Errorf("with a revoked token: %d", got)
	}
}

// With TLS the cookie is for this host alone.
func TestSessions_TLS(t *testing.T) {
	s, _ := newSessions(t)
	d := New(mem.New(), Options{Sessions: s, Authorize: s.Identity})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader("token=dl_7_secret"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].Name != "__Host-distlock" || !c[0].Secure || c[0].Path != "/" || c[0].Domain != "" {
		t.Errorf("%v", w.Header())
	}
	out := post(t, d, "/logout", nil)
	if c := out.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("the log-out leaves %v", out.Header())
	}
}

// A log-in from a page of another origin is refused.
func TestSessions_crossOrigin(t *testing.T) {
	s, _ := newSessions(t)
	d := New(mem.New(), Options{Sessions: s, Authorize: s.Identity})
	if w := post(t, d, "/login", url.Values{"token": {"dl_7_secret"}}, "Sec-Fetch-Site", "cross-site"); len(w.Result().Cookies()) > 0 || w.Code != http.StatusForbidden {
		t.Errorf("%d", w.Code)
	}
}

// The key is made once, for one user, and servers share it.
func TestNewSessions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	a, err := NewSessions(file, &tokens{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewSessions(file, &tokens{})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := b.verify(a.sign("7", time.Now().Add(time.Hour)), time.Now()); err != nil || id != "7" {
		t.Errorf("%q, %v", id, err)
	}
	info, err := os.Stat(file)
	if err != nil || !private(info.Mode()) {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewSessions(file, &tokens{}); private(0o644) != (err == nil) {
		t.Errorf("a key that others can read: %v", err)
	}
}

// A stream sends the live part when it has changed, and ends with the session.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted()
		var revoked atomic.Bool
		d := New(store, Options{Authorize: func(*http.Request) (*access.Identity, error) {
			if revoked.Load() {
				return nil, ErrLogIn
			}
			return access.Everything("a"), nil
		}})
		w := httptest.NewRecorder()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/locks?live=1", nil))
		}()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := strings.Count(w.Body.String(), "No lock is held"); n != 1 {
			t.Errorf("the same part was sent %d times", n)
		}
		hold(t, store, "deploy", "ci\rdata: x")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		body := w.Body.String()
		if strings.Count(body, "<bdi>deploy</bdi>") != 1 || strings.Contains(body, "\r") {
			t.Errorf("the change was not sent: %q", body)
		}
		for line := range strings.SplitSeq(body, "\n") {
			if line != "" && line != ":" && !strings.HasPrefix(line, "data: ") {
				t.Errorf("the line %q is none of the protocol", line)
			}
		}
		revoked.Store(true)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the stream goes on")
			d.Close()
			<-ended
		}
	})
}

// Open pages cost the store no more than one: 100 streams share a scan.
func TestStream_many(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newCounted()
		hold(t, store, "deploy", "ci")
		d := New(store, Options{})
		done := make(chan struct{}, 100)
		for range 100 {
			go func() {
				d.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/locks?live=1", nil))
				done <- struct{}{}
			}()
		}
		time.Sleep(59 * time.Second)
		if n := store.lists.Load(); n > 30 {
			t.Errorf("%d scans in a minute", n)
		}
		d.Close()
		for range 100 {
			<-done
		}
	})
}
