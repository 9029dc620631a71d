package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/distlock/distlock"
	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// direct is a transport without a network, for virtual time.
type direct struct {
	http.Handler
	delay time.Duration  // of answers
	calls sync.WaitGroup // a handler may go on after the end of its call
}

func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header
	w, done := httptest.NewRecorder(), make(chan struct{})
	d.calls.Go(func() {
		defer close(done)
		d.ServeHTTP(w, in)
	})
	select {
	case <-done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	time.Sleep(d.delay)
	return w.Result(), nil
}

// people returns a client of the service Locks.
func people(t *testing.T, s driver.Store) (*server.Server, api.LocksClient, *direct) {
	t.Helper()
	audit := server.NewAudit(io.Discard)
	t.Cleanup(func() { _ = audit.Close() })
	v, err := server.New(t.Context(), s, &server.Options{Anonymous: access.Everything("test"), Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	d := &direct{Handler: v}
	t.Cleanup(d.calls.Wait)
	return v, api.NewLocksClient(&http.Client{Transport: d}, "http://localhost"), d
}

// post makes a call in JSON, and returns the status and the answer.
func post(t *testing.T, h http.Handler, call, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/distlock.v1.Locks/"+call, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatalf("%s %s: %d %s", call, body, w.Code, w.Body)
	}
	return w.Code, out
}

// done makes a call in JSON that succeeds.
func done(t *testing.T, h http.Handler, call, format string, args ...any) map[string]any {
	t.Helper()
	code, out := post(t, h, call, fmt.Sprintf(format, args...))
	if code != http.StatusOK {
		t.Fatalf("%s: %d %v", call, code, out)
	}
	return out
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

// A lock is acquired, refused to others, shown, listed, renewed and released, in JSON.
func TestLocks(t *testing.T) {
	v, _, _ := people(t, mem.New())
	mine := done(t, v, "Acquire", `{"name":"deploy","holder":"ci-1","note":"v2","labels":{"team":"web"},"value":"aGk="}`)
	equal(t, "granted", mine["granted"], true)
	equal(t, "validFor", mine["validFor"], "29s")
	equal(t, "again", mine["again"], false)
	if mine["waited"] == nil || mine["fence"] == nil || mine["holder"] != nil || mine["position"] != nil {
		t.Errorf("%v", mine)
	}

	other := done(t, v, "Acquire", `{"name":"deploy"}`)
	holder, _ := other["holder"].(map[string]any)
	equal(t, "granted", other["granted"], false)
	equal(t, "again", other["again"], false)
	equal(t, "holder", []any{holder["holder"], holder["note"], holder["labels"], holder["value"], holder["fence"], holder["mode"]},
		[]any{"ci-1", "v2", map[string]any{"team": "web"}, "aGk=", mine["fence"], "exclusive"})
	if other["retryAfter"] == nil || holder["left"] == nil || holder["since"] == nil || other["fence"] != nil || other["validFor"] != nil {
		t.Errorf("%v", other)
	}

	lock, _ := done(t, v, "Get", `{"name":"deploy"}`)["lock"].(map[string]any)
	equal(t, "lock", []any{lock["name"], lock["kind"], lock["held"], lock["waiting"], lock["queue"]}, []any{"deploy", "lock", 1, 0, []any{}})
	results, _ := done(t, v, "Renew", `{"handles":[%q,"x",%q]}`, mine["handle"], other["handle"])["results"].([]any)
	if len(results) != 3 {
		t.Fatal(results)
	}
	for i, want := range []string{"held:true", "kind:KIND_INVALID", "lost:true"} {
		if got := fmt.Sprint(results[i]); !strings.Contains(got, want) || strings.Contains(got, "held:true") != (i == 0) || strings.Contains(got, "lost:true") != (i == 2) {
			t.Errorf("renewal %d: %s", i, got)
		}
	}
	equal(t, "released", done(t, v, "Release", `{"handle":%q}`, mine["handle"])["released"], true)
	equal(t, "released twice", done(t, v, "Release", `{"handle":%q}`, mine["handle"])["released"], false)

	const owner = "0123456789abcdefghij-_"
	shared := done(t, v, "Acquire", `{"name":"deploy","mode":"shared","owner":%q}`, owner)
	again := done(t, v, "Acquire", `{"name":"deploy","mode":"shared","owner":%q}`, owner)
	equal(t, "the same call again", again["fence"], shared["fence"])
	equal(t, "a second reader", done(t, v, "Acquire", `{"name":"deploy","mode":"shared"}`)["granted"], true)
	equal(t, "a writer", done(t, v, "Acquire", `{"name":"deploy"}`)["granted"], false)
	equal(t, "released by owner", done(t, v, "Release", `{"name":"deploy","owner":%q}`, owner)["released"], true)
}

// A semaphore has slots and weights, and its names are apart from those of locks.
func TestLocks_slots(t *testing.T) {
	v, _, _ := people(t, mem.New())
	two := done(t, v, "Acquire", `{"name":"pool","slots":3,"weight":2}`)
	equal(t, "granted", two["granted"], true)
	equal(t, "too many", done(t, v, "Acquire", `{"name":"pool","slots":3,"weight":2}`)["granted"], false)
	equal(t, "one more", done(t, v, "Acquire", `{"name":"pool","slots":3}`)["granted"], true)
	equal(t, "the lock", done(t, v, "Acquire", `{"name":"pool"}`)["granted"], true)
	lock := fmt.Sprint(done(t, v, "Get", `{"name":"pool","kind":"sem"}`))
	if !strings.Contains(lock, "held:2") || !strings.Contains(lock, "mode:counted") || !strings.Contains(lock, "slots:3") || !strings.Contains(lock, "weight:2") {
		t.Error(lock)
	}
	equal(t, "renewed", done(t, v, "Acquire", `{"handle":%q,"slots":3,"weight":2}`, two["handle"])["fence"], two["fence"])
	equal(t, "released", done(t, v, "Release", `{"handle":%q}`, two["handle"])["released"], true)
	equal(t, "free", done(t, v, "Acquire", `{"name":"pool","slots":3,"weight":2}`)["granted"], true)
}

// The library continues with the lock of a handle, and the other way round.
func TestLocks_handle(t *testing.T) {
	store := mem.New()
	v, _, _ := people(t, store)
	l, err := distlock.New(store)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	text, _ := done(t, v, "Acquire", `{"name":"deploy","ttl":"60s"}`)["handle"].(string)
	h, err := distlock.ParseHandle(text)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Attach(t.Context(), h)
	if err != nil || lease.Name() != "deploy" || h.TTL() != time.Minute {
		t.Fatal(lease, err)
	}
	if h, err = lease.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := fmt.Sprint(done(t, v, "Renew", `{"handles":[%q]}`, h.Secret()))
	if !strings.Contains(results, "held:true") || !strings.Contains(results, "validFor:59s") {
		t.Error(results)
	}
	equal(t, "released", done(t, v, "Release", `{"handle":%q}`, h.Secret())["released"], true)
}

// An owner that has a claim is not granted more than the store has given it: a shared lock never
// becomes an exclusive one, and a slot never two.
func TestLocks_owner_twice(t *testing.T) {
	for name, tt := range map[string]struct{ first, second, rival string }{
		"shared, then exclusive": {`"mode":"shared"`, `"mode":"exclusive"`, `"mode":"shared"`},
		"one slot, then two":     {`"slots":2`, `"slots":2,"weight":2`, `"slots":2`},
	} {
		t.Run(name, func(t *testing.T) {
			v, _, _ := people(t, mem.New())
			equal(t, "granted", done(t, v, "Acquire", `{"name":"key","owner":"%s",%s}`, owner, tt.first)["granted"], true)
			equal(t, "rival", done(t, v, "Acquire", `{"name":"key",%s}`, tt.rival)["granted"], true)
			for _, wait := range []string{"0s", "10s"} {
				code, out := post(t, v, "Acquire", fmt.Sprintf(`{"name":"key","owner":"%s","wait":"%s",%s}`, owner, wait, tt.second))
				if code != http.StatusBadRequest || !hasReason(out) || strings.Contains(fmt.Sprint(out), owner) {
					t.Errorf("wait %s: %d %v, next to another holder", wait, code, out)
				}
			}
			equal(t, "the same again", done(t, v, "Acquire", `{"name":"key","owner":"%s",%s}`, owner, tt.first)["granted"], true)
		})
	}
	v, _, _ := people(t, mem.New())
	for range 2 {
		equal(t, "exclusive", done(t, v, "Acquire", `{"name":"lock","owner":"%s"}`, owner)["granted"], true)
		equal(t, "two slots", done(t, v, "Acquire", `{"name":"sem","owner":"%s","slots":3,"weight":2}`, owner)["granted"], true)
	}
}

// Break ends the claims that its caller has seen, and their holders get the reason.
func TestLocks_Break(t *testing.T) {
	v, _, _ := people(t, mem.New())
	mine := done(t, v, "Acquire", `{"name":"deploy"}`)
	out := done(t, v, "Break", `{"name":"deploy","upToFence":"1","reason":"too early"}`)
	equal(t, "broken", out["broken"], []any{})
	out = done(t, v, "Break", `{"name":"deploy","upToFence":%q,"reason":"its host is gone"}`, mine["fence"])
	if broken, _ := out["broken"].([]any); len(broken) != 1 {
		t.Errorf("%v", out)
	}
	renewed := fmt.Sprint(done(t, v, "Renew", `{"handles":[%q]}`, mine["handle"]))
	if !strings.Contains(renewed, "lost:true") || !strings.Contains(renewed, "KIND_BROKEN") || !strings.Contains(renewed, "its host is gone") {
		t.Error(renewed)
	}
	done(t, v, "Acquire", `{"name":"deploy"}`)
	if broken, _ := done(t, v, "Break", `{"name":"deploy","all":true,"reason":"all"}`)["broken"].([]any); len(broken) != 1 {
		t.Error(broken)
	}
}

// A list has no values: those of 500 names would fill the memory of the server. Get has them.
func TestLocks_List_values(t *testing.T) {
	v, _, _ := people(t, mem.New())
	done(t, v, "Acquire", `{"name":"key","value":"aGk="}`)
	for call, want := range map[string]bool{"Get": true, "List": false} {
		out := fmt.Sprint(done(t, v, call, `%s`, map[string]string{"Get": `{"name":"key"}`, "List": `{}`}[call]))
		if strings.Contains(out, "aGk=") != want || !strings.Contains(out, "holders:[map[") {
			t.Errorf("%s: %s", call, out)
		}
	}
}

// A list is in order of name and kind, in pages that meet.
func TestLocks_List(t *testing.T) {
	v, _, _ := people(t, mem.New())
	var want []string
	for i := range 7 {
		done(t, v, "Acquire", `{"name":"a/%d"}`, 6-i)
		done(t, v, "Acquire", `{"name":"a/%d","slots":2}`, i)
		want = append(want, fmt.Sprintf("a/%d lock", i), fmt.Sprintf("a/%d sem", i))
	}
	done(t, v, "Acquire", `{"name":"b"}`)
	done(t, v, "Acquire", `{"name":"~tilde"}`)
	list := func(format string, args ...any) (all []string) {
		for after := ""; ; {
			out := done(t, v, "List", "%s", strings.Replace(fmt.Sprintf(format, args...), "{", `{"after":"`+after+`",`, 1))
			for _, l := range out["locks"].([]any) {
				l := l.(map[string]any)
				all = append(all, fmt.Sprint(l["name"], " ", l["kind"]))
			}
			if out["next"] == nil {
				return all
			}
			after = out["next"].(string)
		}
	}
	for _, limit := range []int{1, 3, 14, 500} {
		equal(t, "a/", list(`{"prefix":"a/","limit":%d}`, limit), want)
	}
	equal(t, "locks", len(list(`{"kind":"lock","limit":2}`)), 9)
	equal(t, "tilde", list(`{"prefix":"~","limit":2}`), []string{"~tilde lock"})
	equal(t, "all", len(list(`{"limit":5}`)), 16)
}

func TestLocks_Info(t *testing.T) {
	v, _, _ := people(t, mem.New())
	out := done(t, v, "Info", `{}`)
	equal(t, "info", []any{out["store"], out["storeId"], out["defaultTtl"], out["minTtl"], out["maxTtl"], out["maxWait"], out["draining"]},
		[]any{"mem", v.Identity(), "30s", "0.100s", "86400s", "25s", false})
}

// A call that is not valid is refused with the name of the field, and changes nothing.
func TestLocks_invalid(t *testing.T) {
	store := mem.New()
	v, _, _ := people(t, store)
	handle, _ := done(t, v, "Acquire", `{"name":"held","ttl":"10s"}`)["handle"].(string)
	slots, _ := done(t, v, "Acquire", `{"name":"held","slots":2}`)["handle"].(string)
	for _, tt := range []struct{ call, body, want string }{
		{"Acquire", `{"name":"x","tll":"5s"}`, `there is no field "tll": did you mean "ttl"?`},
		{"Acquire", `{"name":"x","nonsense":1}`, `the fields are name, mode, slots`},
		{"Acquire", `{"name":"x","ttl":"5m"}`, `ttl is "5m": durations are seconds, such as "90s" or "0.5s": write "300s"`},
		{"Acquire", `{"name":"x","ttl":30}`, `ttl is 30: durations are seconds, such as "90s" or "0.5s": write "30s"`},
		{"Acquire", `{"name":"x","wait":"soon"}`, `wait is "soon": durations are seconds`},
		{"Acquire", `{"name":"x","ttl":"s"}`, `invalid google.protobuf.Duration value`},
		{"Acquire", `{"name":"x"`, "it is not JSON"},
		{"Acquire", ``, "it is not JSON"},
		{"Acquire", `[]`, "it is not a JSON object"},
		{"Acquire", `null`, "it is not a JSON object"},
		{"Acquire", `{"name":5}`, "invalid value for string field name"},
		{"Acquire", `{"name":"x","name":"y"}`, "duplicate field"},
		{"Acquire", `{}`, "name: empty"},
		{"Acquire", `{"name":"a\u0007"}`, "name: "},
		{"Acquire", `{"name":"` + strings.Repeat("x", 256) + `"}`, "name: "},
		{"Acquire", `{"name":"x","mode":"greedy"}`, `mode: "greedy" is not`},
		{"Acquire", `{"name":"x","mode":"counted"}`, "mode: "},
		{"Acquire", `{"name":"x","mode":"shared","slots":3}`, "mode: "},
		{"Acquire", `{"name":"x","weight":1}`, "slots: "},
		{"Acquire", `{"name":"x","slots":-1}`, "slots: "},
		{"Acquire", `{"name":"x","slots":2,"weight":3}`, "weight: 3 is not 1 to the 2 slots"},
		{"Acquire", `{"name":"x","ttl":"0.05s"}`, "ttl: it is not 0.1s to 86400s"},
		{"Acquire", `{"name":"x","ttl":"0s"}`, "ttl: "},
		{"Acquire", `{"name":"x","ttl":"86401s"}`, "ttl: "},
		{"Acquire", `{"name":"x","wait":"-1s"}`, "wait: "},
		{"Acquire", `{"name":"x","owner":"12345678"}`, "owner: it has 8 characters, and not 22 to 64"},
		{"Acquire", `{"name":"x","owner":"` + strings.Repeat("x", 65) + `"}`, "owner: "},
		{"Acquire", `{"name":"x","owner":"0123456789abcdefghijk l"}`, "owner: it has other characters"},
		{"Acquire", `{"name":"x","holder":"a\nb"}`, "holder: "},
		{"Acquire", `{"name":"x","labels":{"_note":"x"}}`, "labels: "},
		{"Acquire", `{"name":"x","note":"` + strings.Repeat("x", 257) + `"}`, "the note"},
		{"Acquire", `{"name":"x","value":"` + strings.Repeat("AAAA", 22_000) + `"}`, "value: "},
		{"Acquire", `{"handle":"dlh1.x"}`, "handle: "},
		{"Acquire", `{"handle":"` + handle + `","name":"other"}`, "name: the handle is of another name"},
		{"Acquire", `{"handle":"` + handle + `","mode":"shared"}`, "mode: the handle is exclusive"},
		{"Acquire", `{"handle":"` + handle + `","ttl":"11s"}`, "ttl: the handle has a TTL of 10s"},
		{"Acquire", `{"handle":"` + handle + `","owner":"0123456789abcdefghijkl"}`, "owner: "},
		{"Acquire", `{"handle":"` + handle + `","slots":3}`, "slots: "},
		{"Acquire", `{"handle":"` + slots + `"}`, "slots: "},
		{"Renew", `{}`, "handles: 0 handles are not 1 to 500"},
		{"Renew", `{"handles":["` + strings.Repeat(`","`, 500) + `"]}`, "handles: "},
		{"Release", `{}`, "handle: give a handle, or name and owner"},
		{"Release", `{"name":"x"}`, "owner: "},
		{"Release", `{"name":"held","handle":"` + handle + `"}`, "handle: "},
		{"Get", `{"name":"x","kind":"mutex"}`, `kind: there is no kind "mutex": the kinds are lock, sem, rate, once, lead`},
		{"List", `{"limit":501}`, "limit: "},
		{"List", `{"after":"x"}`, "after: "},
		{"List", `{"kind":"x"}`, "kind: "},
		{"List", `{"prefix":"\u0000"}`, "prefix: "},
		{"Break", `{"name":"held","reason":"r"}`, "upToFence: "},
		{"Break", `{"name":"held","reason":"r","all":true,"upToFence":"1"}`, "upToFence: "},
		{"Break", `{"name":"held","all":true}`, "reason: "},
		{"Break", `{"name":"held","upToFence":"x","reason":"r"}`, "upToFence"},
	} {
		code, out := post(t, v, tt.call, tt.body)
		text, _ := out["message"].(string)
		if code != http.StatusBadRequest || out["code"] != "invalid_argument" || !strings.Contains(text, tt.want) || !hasReason(out) {
			t.Errorf("%s %.80s: %d %v, want %q", tt.call, tt.body, code, out, tt.want)
		}
		if strings.Contains(text, handle) || strings.Contains(text, "12345678") {
			t.Errorf("the error has the secret: %s", text)
		}
	}
	if claims, err := store.Show(t.Context(), "x"); len(claims) > 0 || err != nil {
		t.Errorf("%v, %v", claims, err)
	}
}

// A form, which curl sends by default, is refused with the right content type.
func TestLocks_contentType(t *testing.T) {
	v, _, _ := people(t, mem.New())
	for kind, want := range map[string]int{
		"application/x-www-form-urlencoded": 400, "": 400, "text/plain": 400, "application/xml": 400,
		"application/json": 200, "application/json; charset=utf-8": 200, "application/json;charset=UTF-8": 200,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/distlock.v1.Locks/Info", strings.NewReader("{}"))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		v.ServeHTTP(w, r)
		if text := w.Body.String(); w.Code != want || want == 400 && (!strings.Contains(text, "Content-Type: application/json") || !strings.Contains(text, "distlock.v1.Reason")) {
			t.Errorf("%q: %d %s", kind, w.Code, text)
		}
	}
}

// A browser, and curl without data, send GET. The answer says what to send.
func TestLocks_method(t *testing.T) {
	v, _, _ := people(t, mem.New())
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/distlock.v1.Locks/Info", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost || !strings.Contains(w.Body.String(), "JSON by POST") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// Claims of clients that write what they like are shown as text. Keys that are no names are not
// listed.
func TestLocks_hostile(t *testing.T) {
	s := mem.New()
	v, _, _ := people(t, s)
	for i, key := range []string{"key", "\xff", "a\nb", "~other/x", "~wait/x"} {
		r := request(fmt.Sprint("owner ", i))
		r.Key, r.Holder, r.Meta, r.Value = key, "<b>\xff", map[string]string{"\xfe": "\xff", "_note": "\x00"}, []byte("\xff")
		if _, err := s.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(done(t, v, "Get", `{"name":"key"}`)); !strings.Contains(got, "holder:<b>?") || !strings.Contains(got, "labels:map[?:?]") {
		t.Error(got)
	}
	if locks, _ := done(t, v, "List", `{}`)["locks"].([]any); len(locks) != 1 {
		t.Error(locks)
	}
}

// Every body gets an answer: that of a call, or an error of the caller with our detail.
func FuzzLocks_json(f *testing.F) {
	for _, body := range []string{
		`{"name":"x","ttl":"30s","labels":{"a":"b"},"value":"aGk="}`, `{"tll":1}`, `{"ttl":"5m"}`, `{"ttl":{}}`, `[`, `{"name":"\ud800"}`, "\xff",
	} {
		f.Add(body)
	}
	store := mem.New()
	v, err := server.New(f.Context(), store, &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		code, out := post(t, v, "Acquire", body) // a wait is for a name that is held: there is none
		if code != http.StatusOK && (code != http.StatusBadRequest || !hasReason(out)) {
			t.Errorf("%q: %d %v", body, code, out)
		}
		if text, ok := out["handle"].(string); ok {
			done(t, v, "Release", `{"handle":%q}`, text)
		}
	})
}

// hasReason reports whether the answer of an error has our detail.
func hasReason(out map[string]any) bool {
	return strings.Contains(fmt.Sprint(out["details"]), "distlock.v1.Reason")
}

// An unknown outcome is never taken for a definite one, or for a refusal.
func TestLocks_errors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int
		word string
		kind api.Reason_Kind
	}{
		{errors.New("the connection was lost"), http.StatusInternalServerError, "unknown", api.Reason_KIND_UNKNOWN},
		{context.DeadlineExceeded, http.StatusInternalServerError, "unknown", api.Reason_KIND_UNKNOWN},
		{driver.ErrUnavailable, http.StatusServiceUnavailable, "unavailable", api.Reason_KIND_UNAVAILABLE},
		{driver.ErrInvalid, http.StatusBadRequest, "invalid_argument", api.Reason_KIND_INVALID},
		{errors.ErrUnsupported, http.StatusNotImplemented, "unimplemented", api.Reason_KIND_UNSUPPORTED},
	} {
		s := alter()
		s.acquire = func(context.Context) error { return tt.err }
		v, c, _ := people(t, s)
		code, out := post(t, v, "Acquire", `{"name":"x"}`)
		_, err := c.Acquire(t.Context(), &api.LocksAcquireRequest{Name: "x"})
		if code != tt.code || out["code"] != tt.word || !hasReason(out) || message.ReasonOf(err).GetKind() != tt.kind {
			t.Errorf("%v: %d %v, %v", tt.err, code, out, err)
		}
	}
}

func seconds(n float64) *durationpb.Duration {
	return durationpb.New(time.Duration(n * float64(time.Second)))
}
