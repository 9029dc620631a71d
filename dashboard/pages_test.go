package dashboard

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
	"github.com/distlock/distlock/store/mem"
)

// The form says what ends, by the kind of the lock.
func TestBreak_words(t *testing.T) {
	s := mem.New()
	for _, k := range names.Shown {
		hold(t, s, k.Key("n"), "ci")
	}
	once := names.Once.Key("n")
	if _, err := s.Renew(t.Context(), driver.Renewal{ID: driver.ID{Key: once, Owner: ownerOf("ci", once)}, TTL: time.Minute, Keep: true}); err != nil {
		t.Fatal(err)
	}
	d := New(s, Options{Authorize: everything})
	for _, k := range names.Shown {
		_, body := get(t, d, "/"+lockPath(k, "n"))
		if !strings.Contains(body, "Break this "+nouns[k]+"…") || strings.Contains(body, "may still be at work") != (k != names.Once) || strings.Contains(body, "The work may then run again") != (k == names.Once) {
			t.Errorf("%s: %s", k, body)
		}
	}
	path := "/" + lockPath(names.Once, "n")
	post(t, d, "/break", formOf(t, d, path, "n", "again"))
	if _, body := get(t, d, path+"?broken=1"); !strings.Contains(body, "the next call does the work again") {
		t.Error(body)
	}
}

// Commands on the pages have the address that the browser uses, unless a shell would not like it.
func TestPages_address(t *testing.T) {
	s := mem.New()
	hold(t, s, names.Once.Key("n"), "ci")
	d := New(s, Options{ReadOnly: true})
	for host, want := range map[string]string{"locks.example:8443": "https://locks.example:8443", "[::1]:7520": "https://[::1]:7520", "a$(id)": "https://localhost:7520", "": "https://localhost:7520"} {
		r := newRequest(t, "/"+lockPath(names.Once, "n"))
		r.Host = host
		r.Header.Set("X-Forwarded-Proto", "https")
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		for _, command := range []string{"distlock show --store " + want + " n<", "distlock break --store " + want + " --kind once "} {
			if !strings.Contains(w.Body.String(), command) {
				t.Errorf("%q: no %q in %s", host, command, w.Body)
			}
		}
	}
}

// The audit is searched by name and person, and breaks have a table of their own.
func TestAudit_search(t *testing.T) {
	entries := []AuditEntry{{Identity: "token:ann", Verb: "break", Outcome: "begun", Name: "a"}, {Identity: "token:ann", Verb: "break", Outcome: "broken", Kind: "lock", Name: "team/old"}}
	for i := range 200 {
		entries = append(entries, AuditEntry{Identity: fmt.Sprint("ci-", i), Verb: "acquire", Outcome: "granted", Kind: "lock", Name: fmt.Sprint("job/", i)})
	}
	d := New(mem.New(), Options{Audit: func(n int, keep func(AuditEntry) bool) (out []AuditEntry) {
		for _, e := range slices.Backward(entries) {
			if keep(e) && len(out) < n {
				out = append(out, e)
			}
		}
		return out
	}})
	for path, want := range map[string]struct {
		rows int
		text string
	}{
		"/audit": {1 + 50, "team/old"}, "/audit?name=JOB/17": {11, "job/179"}, "/audit?who=ci-7&name=job": {11, "job/79"}, "/audit?who=ANN": {2 + 1, "token:ann"},
		"/audit?who=<b>": {0, "No entry matches"},
	} {
		_, body := get(t, d, path)
		if n := strings.Count(body, "<tr><td"); n != want.rows || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d rows, want %d: %s", path, n, want.rows, body)
		}
	}
}

// A lease without a renewal is no news before a renewal is due.
func TestHolderView_lease(t *testing.T) {
	now := time.Now()
	for looked, want := range map[time.Duration]bool{3 * time.Second: false, 13 * time.Second: false, 15 * time.Second: true} {
		var h holderView
		h.Until, h.Most, h.Seen = now.Add(20*time.Second), 30*time.Second, now.Add(-looked)
		if _, words, _ := h.lease(now); strings.Contains(words, "it was not") != want {
			t.Errorf("after %v: %s", looked, words)
		}
	}
}
