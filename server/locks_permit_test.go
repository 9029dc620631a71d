package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// Callers do and see what their permissions say. What is denied is the same for names that do not
// exist.
func TestLocks_permissions(t *testing.T) {
	store := mem.New()
	all, _, _ := people(t, store)
	as := func(permissions ...access.Permission) *server.Server {
		audit := server.NewAudit(io.Discard)
		t.Cleanup(func() { _ = audit.Close() })
		v, err := server.New(t.Context(), store, &server.Options{
			Anonymous: &access.Identity{Name: "token:ci", Permissions: permissions}, Audit: audit,
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	handle := done(t, all, "Acquire", `{"name":"b/held","value":"aGk=","holder":"b-1"}`)["handle"]
	done(t, all, "Acquire", `{"name":"a/held","value":"aGk=","holder":"a-1"}`)

	member := as(access.Permission{Names: "a/", Verbs: access.Acquire, MaxTTL: time.Minute})
	var texts []string
	for _, tt := range []struct{ call, body string }{
		{"Acquire", `{"name":"b/held"}`}, {"Acquire", `{"name":"b/held","slots":2}`}, {"Acquire", `{"name":"b/held","wait":"5s"}`},
		{"Acquire", fmt.Sprintf(`{"handle":%q}`, handle)}, {"Release", fmt.Sprintf(`{"handle":%q}`, handle)},
		{"Get", `{"name":"b/held"}`}, {"Get", `{"name":"b/free"}`}, {"Break", `{"name":"a/held","all":true,"reason":"r"}`},
		{"Acquire", `{"name":"a/new","ttl":"61s"}`},
	} {
		code, out := post(t, member, tt.call, tt.body)
		if code != http.StatusForbidden || out["code"] != "permission_denied" || !hasReason(out) {
			t.Errorf("%s %s: %d %v", tt.call, tt.body, code, out)
		}
		texts = append(texts, fmt.Sprint(out["message"]))
	}
	equal(t, "a name that does not exist", strings.ReplaceAll(texts[6], "free", "held"), texts[5])
	if got := fmt.Sprint(done(t, member, "Renew", `{"handles":[%q]}`, handle)); !strings.Contains(got, "KIND_DENIED") || strings.Contains(got, "lost:true") {
		t.Error(got)
	}
	list := fmt.Sprint(done(t, member, "List", `{}`))
	if !strings.Contains(list, "a/held") || strings.Contains(list, "b/held") {
		t.Error(list)
	}
	mine := done(t, member, "Acquire", `{"name":"a/new"}`)
	equal(t, "granted", mine["granted"], true)
	if got := fmt.Sprint(done(t, member, "Get", `{"name":"a/new"}`)); !strings.Contains(got, "holder:token:ci") {
		t.Error(got)
	}
	if got := fmt.Sprint(done(t, member, "Acquire", `{"name":"a/held"}`)); !strings.Contains(got, "value:aGk=") {
		t.Errorf("the value is for those that may acquire the name: %s", got)
	}

	observer := as(access.Permission{Names: "*", Verbs: access.Observe}, access.Permission{Names: "b/", Verbs: access.Break})
	for _, call := range []string{`Get {"name":"b/held"}`, `List {"prefix":"b/"}`, `Break {"name":"b/held","all":true,"reason":"r"}`} {
		call, body, _ := strings.Cut(call, " ")
		if got := fmt.Sprint(done(t, observer, call, "%s", body)); !strings.Contains(got, "b-1") || strings.Contains(got, "aGk=") {
			t.Errorf("%s: %s", call, got)
		}
	}
}

// A caller whose token is revoked does not go on waiting.
func TestLocks_revoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		hold(t, s, time.Hour)
		var revoked atomic.Bool
		v, err := server.New(t.Context(), s, &server.Options{Authenticate: []server.Authenticator{
			func(*http.Request) (*access.Identity, error) {
				if revoked.Load() {
					return nil, fmt.Errorf("the token is revoked")
				}
				return access.Everything("token:ci"), nil
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := api.NewLocksClient(&http.Client{Transport: &direct{Handler: v}}, "http://localhost")
		time.AfterFunc(5*time.Second, func() { revoked.Store(true) })
		began := time.Now()
		_, err = c.Acquire(context.WithoutCancel(t.Context()), &api.LocksAcquireRequest{Name: "key", Wait: seconds(20)})
		if took := time.Since(began); message.ReasonOf(err).GetKind() != api.Reason_KIND_UNAUTHENTICATED || took > 8*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if _, waiting := show(t, s); waiting > 0 {
			t.Error("its entry is there")
		}
	})
}
