package server_test

import (
	"bytes"
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
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// A team is one client of a site: its token is its name.
type team struct {
	api.StoreClient
	ctx context.Context
}

// site is a server whose clients are teams, with their permissions.
type site struct {
	*server.Server
	store *mem.Store
	web   *httptest.Server
	audit *server.Audit
	lines *lines

	mu    sync.Mutex
	teams map[string][]access.Permission
}

// lines is what an audit wrote.
type lines struct {
	mu  sync.Mutex
	b   bytes.Buffer
	err error
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	return l.b.Write(p)
}

func (l *lines) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func newSite(t *testing.T, teams map[string][]access.Permission) *site {
	t.Helper()
	s := &site{store: mem.New(), lines: &lines{}, teams: teams}
	s.audit = server.NewAudit(s.lines)
	var err error
	s.Server, err = server.New(t.Context(), s.store, &server.Options{
		Audit:        s.audit,
		Authenticate: []server.Authenticator{s.authenticate},
		Permissions:  s.permissions,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.web = httptest.NewUnstartedServer(s.Server)
	s.web.Config = s.HTTP()
	s.web.EnableHTTP2 = true
	s.web.StartTLS()
	t.Cleanup(func() {
		s.web.Close()
		_ = s.audit.Close()
	})
	return s
}

func (s *site) authenticate(r *http.Request) (*access.Identity, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.teams[name]; !ok {
		return nil, errors.New("nobody knows this team")
	}
	return &access.Identity{Name: "team:" + name}, nil
}

func (s *site) permissions(identity string) []access.Permission {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.teams[strings.TrimPrefix(identity, "team:")]
}

func (s *site) set(name string, p []access.Permission, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.teams[name] = p; !known {
		delete(s.teams, name)
	}
}

func (s *site) client(t *testing.T, name string) team {
	ctx, info := connect.NewClientContext(t.Context())
	if name != "" {
		info.RequestHeader().Set("Authorization", "Bearer "+name)
	}
	return team{api.NewStoreClient(s.web.Client(), s.web.URL), ctx}
}

func (c team) acquire(key, owner string, change ...func(*driver.Request)) error {
	r := driver.Request{ID: driver.ID{Key: key, Owner: owner}, Weight: driver.Whole, Limit: driver.Whole, TTL: 4 * time.Second}
	for _, f := range change {
		f(&r)
	}
	m, err := c.Acquire(c.ctx, message.Request(r))
	if err == nil && !m.GetGranted() {
		return driver.ErrNotHeld
	}
	return err
}

func (c team) renew(r driver.Renewal) api.Reason_Kind {
	m, err := c.Renew(c.ctx, &api.RenewRequest{Renewals: []*api.Renewal{message.Renewal(r)}})
	if err != nil {
		return message.ReasonOf(err).GetKind()
	}
	return m.GetRenewed()[0].GetReason().GetKind()
}

func (c team) list(t *testing.T, prefix string) (keys []string) {
	t.Helper()
	stream, err := c.List(c.ctx, &api.ListRequest{Prefix: []byte(prefix)})
	for err == nil && stream.Receive() {
		for _, one := range stream.Msg().GetClaims() {
			keys = append(keys, fmt.Sprintf("%s=%s", one.GetKey(), one.GetValue()))
		}
	}
	if err == nil {
		err = errors.Join(stream.Err(), stream.Close())
	}
	if err != nil {
		t.Error(err)
	}
	return keys
}

const (
	none   = api.Reason_KIND_UNSPECIFIED
	denied = api.Reason_KIND_DENIED
)

func kindOf(err error) api.Reason_Kind {
	if err == nil {
		return none
	}
	if r := message.ReasonOf(err); r != nil {
		return r.GetKind()
	}
	return api.Reason_KIND_UNKNOWN
}

var teams = map[string][]access.Permission{
	"a":     {{Names: "team-a/", Verbs: access.Acquire | access.Observe, MaxTTL: 10 * time.Second, MaxKeep: time.Minute}, {Names: "shared", Verbs: access.Acquire}},
	"b":     {{Names: "team-b/", Verbs: access.Acquire | access.Observe}},
	"eyes":  {{Names: "team-a/", Verbs: access.Observe}},
	"guard": {{Names: "team-a/", Verbs: access.Break}},
	"all":   {{Names: "*", Verbs: access.All}},
	"none":  nil,
}

func notice(holds, wants string) []byte {
	text, _ := json.Marshal(map[string]any{"key": holds, "fence": 1, "wants": wants, "weight": driver.Whole, "limit": driver.Whole})
	return text
}

func posts(holds, wants string) func(*driver.Request) {
	return func(r *driver.Request) { r.Weight, r.Value = 1, notice(holds, wants) }
}

func queues(d time.Duration) func(*driver.Request) { return func(r *driver.Request) { r.QueueTTL = d } }

func ttl(d time.Duration) func(*driver.Request) { return func(r *driver.Request) { r.TTL = d } }

// Who may acquire what. Permissions are about names of every kind, and never about raw keys.
func TestGuard_Acquire(t *testing.T) {
	s := newSite(t, teams)
	for _, tt := range []struct {
		team, key string
		change    func(*driver.Request)
		want      api.Reason_Kind
	}{
		{"a", "team-a/x", nil, none},
		{"a", "team-a", nil, denied}, // it is not below team-a/
		{"a", "team-b/x", nil, denied},
		{"a", "shared", nil, none},
		{"a", "shared/x", nil, denied}, // that name alone
		{"a", "~sem/team-a/x", nil, none},
		{"a", "~once/team-a/x", nil, none},
		{"a", "~once/team-b/x", nil, denied},
		{"a", "~lead/team-b/x", nil, denied},
		{"a", "~rate/team-b/x", nil, denied},
		{"a", "~~team-a/x", nil, denied}, // the name ~team-a/x
		{"a", "~other/team-a/x", nil, denied},
		{"all", "~other/team-a/x", nil, none},
		{"a", "team-a/\x00", nil, denied}, // no name
		{"all", "team-a/\x00", nil, none},
		{"a", "team-a/" + strings.Repeat("x", 300), nil, denied},
		{"a", "team-a/long", ttl(11 * time.Second), denied},
		{"a", "team-a/long", ttl(10 * time.Second), none},
		{"a", "~rate/team-a/x", ttl(30 * time.Second), none}, // a pass is like a record
		{"a", "~rate/team-a/x", ttl(2 * time.Minute), denied},
		{"a", "team-a/queue", queues(31 * time.Second), denied}, // a store grants claims to queue entries
		{"a", "team-a/queue", queues(30 * time.Second), none},
		{"b", "team-b/queue", queues(time.Minute), none},
		{"b", "~check/x", queues(2 * time.Minute), denied},
		{"eyes", "team-a/x", nil, denied},
		{"guard", "team-a/x", nil, denied},
		{"none", "team-a/x", nil, denied},
		{"none", "~check/x", nil, denied},
		{"eyes", "~check/x", nil, denied},
		{"b", "~check/x", ttl(time.Minute), none},
		{"b", "~check/y", ttl(time.Minute + 1), denied},
		{"b", "~doctor/x", nil, none},
		{"b", "~doctor/y", ttl(time.Hour), denied},
		{"a", "~wait/0a", posts("team-a/x", "team-a/y"), none},
		{"a", "~wait/0a", posts("~sem/team-a/x", "shared"), none},
		{"a", "~wait/0a", posts("team-a/x", "team-b/y"), denied}, // a foreign name is waited for
		{"a", "~wait/0a", posts("team-b/x", "team-a/y"), denied}, // and held
		{"a", "~wait/0a", posts("team-a/x", "~wait/0a"), denied},
		{"a", "~wait/0a", func(r *driver.Request) { r.Weight, r.Value = 1, []byte("no notice") }, denied},
		{"a", "~wait/0a", func(r *driver.Request) { r.Weight = 1 }, denied},
		{"a", "~wait/0a", func(r *driver.Request) { r.Value = notice("team-a/x", "team-a/y") }, denied}, // alone
		{"a", "~wait/0a", func(r *driver.Request) { posts("team-a/x", "team-a/y")(r); r.TTL = 6 * time.Second }, denied},
		{"a", "~wait/0a", func(r *driver.Request) {
			posts("team-a/x", "team-a/y")(r)
			r.Value = append(bytes.Repeat([]byte(" "), 16<<10), r.Value...)
		}, api.Reason_KIND_INVALID},
		{"nobody", "team-a/x", nil, api.Reason_KIND_UNAUTHENTICATED},
		{"", "team-a/x", nil, api.Reason_KIND_UNAUTHENTICATED},
	} {
		c := s.client(t, tt.team)
		change := func(*driver.Request) {}
		if tt.change != nil {
			change = tt.change
		}
		owner := fmt.Sprintf("%s %p", tt.team, tt.change)
		err := c.acquire(tt.key, owner, change)
		if got := kindOf(err); got != tt.want {
			t.Errorf("%s acquires %.64q: %v, want %v (%v)", tt.team, tt.key, got, tt.want, err)
		}
		if claims, err := s.store.Show(t.Context(), tt.key); err != nil || (len(claims) > 0) != (tt.want == none) && !strings.HasPrefix(tt.key, "~wait/") {
			t.Errorf("%s acquires %.64q: the store has %d claims, %v", tt.team, tt.key, len(claims), err)
		}
		_ = s.store.Release(t.Context(), driver.ID{Key: tt.key, Owner: owner})
	}
}

// A renewal and a release need the permission to acquire, besides the owner. Another identity with
// that permission may use the owner too.
func TestGuard_Renew_Release(t *testing.T) {
	s := newSite(t, map[string][]access.Permission{"a": teams["a"], "b": teams["b"], "all": teams["all"], "eyes": teams["eyes"]})
	for _, key := range []string{"team-a/x", "~once/team-a/x", "~rate/team-a/x", "~wait/0a", "~check/x"} {
		if _, err := s.store.Acquire(t.Context(), driver.Request{ID: driver.ID{Key: key, Owner: "o"}, Weight: 1, Limit: driver.Whole, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		team string
		driver.Renewal
		want api.Reason_Kind
	}{
		{"a", driver.Renewal{ID: driver.ID{Key: "team-a/x"}, TTL: 10 * time.Second}, none},
		{"all", driver.Renewal{ID: driver.ID{Key: "team-a/x"}, TTL: time.Hour}, none},
		{"a", driver.Renewal{ID: driver.ID{Key: "team-a/x"}, TTL: 11 * time.Second}, denied},
		{"b", driver.Renewal{ID: driver.ID{Key: "team-a/x"}, TTL: time.Second}, denied},
		{"eyes", driver.Renewal{ID: driver.ID{Key: "team-a/x"}, TTL: time.Second}, denied},
		{"nobody", driver.Renewal{ID: driver.ID{Key: "team-a/x"}, TTL: time.Second}, api.Reason_KIND_UNAUTHENTICATED},
		{"a", driver.Renewal{ID: driver.ID{Key: "~once/team-a/x"}, TTL: time.Minute, Keep: true}, none},
		{"a", driver.Renewal{ID: driver.ID{Key: "~once/team-a/x"}, TTL: 2 * time.Minute, Keep: true}, denied},
		{"a", driver.Renewal{ID: driver.ID{Key: "~rate/team-a/x"}, TTL: time.Minute}, none}, // the span of a limit
		{"a", driver.Renewal{ID: driver.ID{Key: "~rate/team-a/x"}, TTL: 2 * time.Minute}, denied},
		{"a", driver.Renewal{ID: driver.ID{Key: "~wait/0a"}, TTL: time.Second, Value: notice("team-a/x", "team-a/y")}, none},
		{"a", driver.Renewal{ID: driver.ID{Key: "~wait/0a"}, TTL: time.Second, Value: notice("team-b/x", "team-a/y")}, denied},
		{"a", driver.Renewal{ID: driver.ID{Key: "~wait/0a"}, TTL: time.Second, Keep: true}, denied},
		{"a", driver.Renewal{ID: driver.ID{Key: "~wait/0a"}, TTL: time.Minute}, denied},
		{"a", driver.Renewal{ID: driver.ID{Key: "~check/x"}, TTL: time.Hour}, denied},
		{"b", driver.Renewal{ID: driver.ID{Key: "~check/x"}, TTL: time.Minute, Keep: true}, denied},
	} {
		tt.Owner = "o"
		if got := s.client(t, tt.team).renew(tt.Renewal); got != tt.want {
			t.Errorf("%s renews %+v: %v, want %v", tt.team, tt.Renewal, got, tt.want)
		}
	}
	// One renewal that is denied does not touch the others of its call.
	m, err := s.client(t, "a").Renew(s.client(t, "a").ctx, &api.RenewRequest{Renewals: []*api.Renewal{
		message.Renewal(driver.Renewal{ID: driver.ID{Key: "team-b/x", Owner: "o"}, TTL: time.Second}),
		message.Renewal(driver.Renewal{ID: driver.ID{Key: "team-a/x", Owner: "o"}, TTL: time.Second}),
	}})
	if err != nil || m.GetRenewed()[0].GetReason().GetKind() != denied || m.GetRenewed()[1].GetReason() != nil {
		t.Errorf("two renewals: %v, %v", m, err)
	}
	for _, team := range []string{"b", "eyes", "a"} {
		c, want := s.client(t, team), denied
		if team == "a" {
			want = none
		}
		if _, err := c.Release(c.ctx, &api.ReleaseRequest{Id: message.ID(driver.ID{Key: "team-a/x", Owner: "o"})}); kindOf(err) != want {
			t.Errorf("%s releases: %v", team, err)
		}
	}
}

// A denial is the same for a name that is in use and for one that is not.
func TestGuard_same_denial(t *testing.T) {
	s := newSite(t, teams)
	if err := s.client(t, "b").acquire("team-b/used", "o"); err != nil {
		t.Fatal(err)
	}
	c := s.client(t, "a")
	for name, call := range map[string]func(key string) error{
		"acquire": func(key string) error { return c.acquire(key, "p") },
		"show":    func(key string) error { _, err := c.Show(c.ctx, &api.ShowRequest{Key: []byte(key)}); return err },
		"break":   func(key string) error { _, err := c.Break(c.ctx, &api.BreakRequest{Key: []byte(key)}); return err },
		"release": func(key string) error {
			_, err := c.Release(c.ctx, &api.ReleaseRequest{Id: message.ID(driver.ID{Key: key, Owner: "o"})})
			return err
		},
	} {
		used, free := call("team-b/used"), call("team-b/free")
		if kindOf(used) != denied || strings.ReplaceAll(used.Error(), "used", "free") != free.Error() {
			t.Errorf("%s: %v, and %v", name, used, free)
		}
	}
}

// Lists are filtered claim by claim, and values are for those that may acquire the name.
func TestGuard_shows(t *testing.T) {
	s := newSite(t, teams)
	put := func(key, value string) {
		t.Helper()
		_, err := s.store.Acquire(t.Context(), driver.Request{
			ID: driver.ID{Key: key, Owner: key}, Weight: 1, Limit: driver.Whole, TTL: time.Minute, Value: []byte(value),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ours, mixed := string(notice("team-a/x", "team-a/y")), string(notice("team-a/x", "team-b/y"))
	for key, value := range map[string]string{
		"team-a/x": "1", "~once/team-a/x": "2", "team-b/x": "3", "~once/team-b/x": "4", "shared": "5", "~other/x": "6",
		"~check/x": "7", "~doctor/x": "8", "~wait/01": ours, "~wait/02": mixed, "team-a/\x00": "9",
	} {
		put(key, value)
	}
	for _, tt := range []struct {
		team string
		want []string
	}{
		{"a", []string{"shared=5", "team-a/x=1", "~once/team-a/x=2", "~wait/01=" + ours}},
		{"b", []string{"team-b/x=3", "~once/team-b/x=4"}},
		{"eyes", []string{"team-a/x=", "~once/team-a/x=", "~wait/01=" + ours}},
		{"all", []string{
			"shared=5", "team-a/\x00=9", "team-a/x=1", "team-b/x=3", "~once/team-a/x=2", "~once/team-b/x=4", "~other/x=6",
			"~wait/01=" + ours, "~wait/02=" + mixed,
		}},
	} {
		got := map[string]bool{}
		for _, line := range s.client(t, tt.team).list(t, "") {
			got[line] = true
		}
		for _, line := range tt.want {
			if !got[line] {
				t.Errorf("%s does not see %q", tt.team, line)
			}
			delete(got, line)
		}
		for line := range got {
			t.Errorf("%s sees %q", tt.team, line)
		}
	}
	for _, tt := range []struct {
		team, key string
		want      string // the value, "-" for no claim, "denied"
	}{
		{"a", "team-a/x", "1"}, {"a", "~once/team-a/x", "2"}, {"a", "shared", "5"}, {"eyes", "~once/team-a/x", ""},
		{"b", "team-a/x", "denied"}, {"a", "~once/team-b/x", "denied"}, {"a", "~other/x", "denied"}, {"a", "team-a/\x00", "denied"},
		{"guard", "team-a/x", "denied"}, {"none", "~check/x", "denied"}, {"b", "~doctor/x", "8"},
		{"a", "~wait/01", ours}, {"a", "~wait/02", "-"}, {"b", "~wait/01", "-"}, {"all", "~wait/02", mixed}, {"none", "~wait/01", "denied"},
	} {
		c := s.client(t, tt.team)
		m, err := c.Show(c.ctx, &api.ShowRequest{Key: []byte(tt.key)})
		got := "-"
		if kindOf(err) == denied {
			got = "denied"
		} else if len(m.GetClaims()) > 0 {
			got = string(m.GetClaims()[0].GetValue())
		}
		if got != tt.want {
			t.Errorf("%s sees %q of %q (%v), want %q", tt.team, got, tt.key, err, tt.want)
		}
	}
}

// Only break breaks, and only if it is recorded.
func TestGuard_Break(t *testing.T) {
	s := newSite(t, teams)
	try := func(team, key string) error {
		if err := s.client(t, "all").acquire(key, "o", func(r *driver.Request) { r.Value = []byte("secret") }); err != nil {
			t.Fatal(err)
		}
		c := s.client(t, team)
		m, err := c.Break(c.ctx, &api.BreakRequest{Key: []byte(key), Reason: []byte("stuck")})
		if claims, _ := s.store.Show(t.Context(), key); (len(claims) == 0) != (err == nil) {
			t.Errorf("%s breaks %s: %v, and there are %d claims", team, key, err, len(claims))
		}
		for _, claim := range m.GetClaims() {
			if team == "guard" && claim.GetValue() != nil {
				t.Errorf("%s sees the value %s", team, claim.GetValue())
			}
		}
		_ = s.store.Release(t.Context(), driver.ID{Key: key, Owner: "o"})
		return err
	}
	for _, tt := range []struct {
		team, key string
		want      api.Reason_Kind
	}{
		{"guard", "team-a/x", none}, {"guard", "~sem/team-a/x", none}, {"guard", "team-b/x", denied}, {"a", "team-a/x", denied},
		{"guard", "~check/x", denied}, {"all", "~check/x", none}, {"guard", "~other/x", denied},
	} {
		if err := try(tt.team, tt.key); kindOf(err) != tt.want {
			t.Errorf("%s breaks %s: %v, want %v", tt.team, tt.key, err, tt.want)
		}
	}
	s.lines.fail(errors.New("no space left"))
	if err := try("guard", "team-a/x"); kindOf(err) != api.Reason_KIND_UNAVAILABLE {
		t.Errorf("without a record: %v", err)
	}
	c := s.client(t, "a")
	if m, err := c.Inspect(c.ctx, &api.InspectRequest{}); err != nil || !strings.Contains(m.String(), "cannot write its audit") {
		t.Errorf("Inspect: %v, %v", m, err)
	}
	s.lines.fail(nil)
	if err := try("guard", "team-a/x"); err != nil {
		t.Errorf("with a record again: %v", err)
	}
	v, err := server.New(t.Context(), s.store, &server.Options{Anonymous: access.Everything("x")})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(v)
	defer web.Close()
	if _, err := api.NewStoreClient(web.Client(), web.URL).Break(t.Context(), &api.BreakRequest{Key: []byte("k")}); kindOf(err) != api.Reason_KIND_UNAVAILABLE {
		t.Errorf("a server without an audit: %v", err)
	}
}

// The audit has grants, releases, breaks and refusals, with the tag of the owner and never the
// owner.
func TestGuard_audit(t *testing.T) {
	s := newSite(t, teams)
	a := s.client(t, "a")
	if err := a.acquire("~once/team-a/x", "owner-secret"); err != nil {
		t.Fatal(err)
	}
	_ = a.acquire("~once/team-a/x", "other-secret") // busy
	_ = a.renew(driver.Renewal{ID: driver.ID{Key: "~once/team-a/x", Owner: "owner-secret"}, TTL: time.Second})
	_ = a.list(t, "")
	_ = a.acquire("~check/x", "check-secret")
	if _, err := a.Release(a.ctx, &api.ReleaseRequest{Id: message.ID(driver.ID{Key: "~once/team-a/x", Owner: "owner-secret"})}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_ = a.acquire("team-b/x", "o")
	}
	_ = a.acquire("team-b/"+strings.Repeat("x", 64<<10), "o")
	_ = s.client(t, "nobody").acquire("team-a/x", "o")
	if err := s.audit.Close(); err != nil {
		t.Fatal(err)
	}
	s.audit = server.NewAudit(s.lines) // for the end of the test
	var got []string
	for line := range strings.Lines(s.lines.b.String()) {
		var e server.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil || time.Since(e.Time) > time.Hour || e.Remote == "" {
			t.Errorf("%s: %v", line, err)
		}
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes", len(line))
			continue
		}
		e.Name = strings.TrimRight(e.Name, "x.")
		got = append(got, fmt.Sprint(e.Identity, " ", e.Verb, " ", e.Kind, " ", e.Name, " ", e.Owner, " ", e.Fence > 0, " ", e.Outcome, " ", e.Count))
	}
	tag := driver.Tag("owner-secret")
	want := []string{
		"team:a acquire once team-a/ " + tag + " true granted 0",
		"team:a release once team-a/ " + tag + " false released 0",
		"team:a acquire lock team-b/  false denied 0",
		"team:a acquire  team-b/  false denied 0", // too long for a name
		"nobody /distlock.v1.Store/Acquire    false unauthenticated 0",
		"team:a acquire lock team-b/  false denied 4", // the same again, folded
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || strings.Contains(s.lines.b.String(), "secret") {
		t.Errorf("the audit is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A reader of the audit that stalls stops no lock. Breaks are refused meanwhile.
func TestGuard_audit_stalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		audit := server.NewAudit(w)
		v, err := server.New(t.Context(), mem.New(), &server.Options{Audit: audit, Anonymous: access.Everything("test")})
		if err != nil {
			t.Fatal(err)
		}
		call := func(path, body string) int {
			q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			a := httptest.NewRecorder()
			v.ServeHTTP(a, q)
			return a.Code
		}
		for range 5000 {
			if code := call(api.StoreAcquireProcedure, `{"id":{"key":"a2V5","owner":"YQ=="},"weight":"1","limit":"1","ttlNs":"60000000000"}`); code != 200 {
				t.Fatalf("Acquire: %d", code)
			}
		}
		if code := call(api.StoreBreakProcedure, `{"key":"a2V5"}`); code != 503 || audit.Err() == nil || audit.Lost() == 0 {
			t.Errorf("Break: %d, %v, %d entries lost", code, audit.Err(), audit.Lost())
		}
		go func() { _, _ = io.Copy(io.Discard, r) }()
		synctest.Wait()
		if code := call(api.StoreBreakProcedure, `{"key":"a2V5"}`); code != 200 || audit.Err() != nil {
			t.Errorf("Break: %d, %v", code, audit.Err())
		}
		_ = audit.Close()
		_ = w.Close()
	})
}

// Strangers whose calls all differ do not fill the disk with refusals. Those that are too many are
// counted.
func TestGuard_audit_flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 3000
		out := &lines{}
		audit := server.NewAudit(out)
		v, err := server.New(t.Context(), mem.New(), &server.Options{
			Audit:        audit,
			Authenticate: []server.Authenticator{func(*http.Request) (*access.Identity, error) { return nil, nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range calls {
			path := fmt.Sprintf("/distlock.v1.Store/%d", i)
			v.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
			synctest.Wait()
		}
		if err := audit.Close(); err != nil {
			t.Fatal(err)
		}
		written, counted := 0, 0
		for line := range strings.Lines(out.b.String()) {
			var e server.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Identity != "nobody" || e.Outcome != "unauthenticated" {
				t.Fatalf("%s: %v", line, err)
			}
			written, counted = written+1, counted+max(1, e.Count)
		}
		if written > 1100 || counted != calls {
			t.Errorf("%d lines about %d calls, want at most 1100 about %d", written, counted, calls)
		}
	})
}

// A stream ends when its client is no longer known, and when its permissions change. A watch of a
// foreign name is refused.
func TestGuard_Watch(t *testing.T) {
	for _, change := range []string{"revoked", "changed"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string][]access.Permission{"a": teams["a"]})
			c := s.client(t, "a")
			stream, err := c.Watch(c.ctx)
			if err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(10*time.Second, func() { _ = stream.CloseRequest() }) // a stream that does not end fails the test
			defer late.Stop()
			for n, key := range []string{"team-a/x", "team-b/x", "~wait/01", "~other/x"} {
				if err := stream.Send(&api.WatchRequest{Watch: uint64(n + 1), Id: &api.ID{Key: []byte(key)}}); err != nil {
					t.Fatal(err)
				}
			}
			kinds := map[uint64]api.WatchResponse_Kind{}
			for len(kinds) < 5 {
				m, err := stream.Receive()
				if err != nil {
					t.Fatal(err)
				}
				if m.GetKind() != api.WatchResponse_KIND_WAKE {
					kinds[m.GetWatch()] = m.GetKind()
				}
			}
			const active, refused = api.WatchResponse_KIND_ACTIVE, api.WatchResponse_KIND_REFUSED
			if kinds[1] != active || kinds[2] != refused || kinds[3] != active || kinds[4] != refused {
				t.Errorf("watches: %v", kinds)
			}
			want := api.Reason_KIND_UNAUTHENTICATED
			if s.set("a", nil, false); change == "changed" {
				s.set("a", teams["b"], true)
				want = api.Reason_KIND_UNAVAILABLE
			}
			for err == nil {
				_, err = stream.Receive()
			}
			if kindOf(err) != want {
				t.Errorf("the stream ends with %v, want %v", err, want)
			}
		})
	}
}
