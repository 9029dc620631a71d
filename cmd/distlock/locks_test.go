package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/store/mem"
)

// The handle of the service Locks is that of the command: it renews and releases the lock, through
// the server that gave it. A handle of the command works the other way round.
func TestLocks_handle(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	v, err := server.New(t.Context(), mem.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(nil)
	web.Config = v.HTTP()
	web.Config.Handler = v.Local()
	web.Start()
	defer web.Close()
	c := api.NewLocksClient(http.DefaultClient, web.URL)
	run := func(input string, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := execute(t.Context(), append(args, "--store", web.URL), strings.NewReader(input), &out, &errs); code != 0 {
			t.Errorf("%v: exit %d: %s", args, code, errs.String())
		}
		return strings.TrimSpace(out.String())
	}
	lock, err := c.Acquire(t.Context(), &api.LocksAcquireRequest{Name: "deploy", Holder: "curl"})
	if err != nil || !lock.GetGranted() {
		t.Fatal(lock, err)
	}
	if got := run("", "show", "deploy"); !strings.Contains(got, "curl") {
		t.Error(got)
	}
	run(lock.GetHandle(), "renew", "-")
	run(lock.GetHandle(), "release", "-")

	handle := run("", "acquire", "deploy", "--ttl", "60s")
	renewed, err := c.Renew(t.Context(), &api.LocksRenewRequest{Handles: []string{handle, lock.GetHandle()}})
	if err != nil {
		t.Fatal(err)
	}
	if r := renewed.GetResults(); !r[0].GetHeld() || r[0].GetValidFor().GetSeconds() != 59 || !r[1].GetLost() {
		t.Errorf("%v", r)
	}
	if out, err := c.Release(t.Context(), &api.LocksReleaseRequest{Handle: handle}); err != nil || !out.GetReleased() {
		t.Error(out, err)
	}
}
