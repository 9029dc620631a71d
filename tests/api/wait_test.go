package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

// stores are the stores on which calls wait, with a way to open one.
var stores = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") },
	"redis":    func(t *testing.T) string { return testenv.Redis(t).URL },
	"postgres": func(t *testing.T) string { return testenv.Postgres(t, testenv.Shared()).URL },
}

// A call of curl waits and is granted at the release, on both versions of HTTP. If curl is killed,
// its queue entry is gone.
func TestWait_curl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testenv.Missing(t, "curl", "apt-get install curl")
	}
	for name, url := range stores {
		t.Run(name, func(t *testing.T) {
			source, err := open.Open(t.Context(), url(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(source.Close)
			addr := serveStore(t, source.Store)
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			c := api.NewLocksClient(&http.Client{Transport: transport}, "http://"+addr)
			for _, option := range []string{"--http1.1", "--http2-prior-knowledge"} {
				waits(t, c, addr, option)
			}
		})
	}
}

func waits(t *testing.T, c api.LocksClient, addr, option string) {
	t.Helper()
	held, err := c.Acquire(t.Context(), &api.LocksAcquireRequest{Name: "deploy"})
	if err != nil || !held.GetGranted() {
		t.Fatal(held, err)
	}
	curl := func(ctx context.Context) (out *strings.Builder, wait func() error) {
		cmd := exec.CommandContext(ctx, "curl", "-sS", "--noproxy", "*", option, "http://"+addr+"/distlock.v1.Locks/Acquire",
			"-H", "Content-Type: application/json", "-d", `{"name":"deploy","wait":"25s"}`)
		out = &strings.Builder{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return out, cmd.Wait
	}
	queue := func(want int32) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			m, err := c.Get(t.Context(), &api.LocksGetRequest{Name: "deploy"})
			if err != nil {
				t.Fatal(err)
			}
			if m.GetLock().GetWaiting() == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v, want %d in the queue", option, m, want)
			}
		}
	}
	ctx, kill := context.WithCancel(t.Context())
	_, wait := curl(ctx)
	queue(1)
	kill()
	_ = wait()
	queue(0)

	out, wait := curl(t.Context())
	queue(1)
	if _, err := c.Release(t.Context(), &api.LocksReleaseRequest{Handle: held.GetHandle()}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Granted        bool
		Handle, Waited string
	}
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || !got.Granted || got.Waited == "" {
		t.Errorf("%s: %v: %s", option, err, out)
	}
	if m, err := c.Release(t.Context(), &api.LocksReleaseRequest{Handle: got.Handle}); err != nil || !m.GetReleased() {
		t.Error(m, err)
	}
}
