package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/dashboard"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// The traffic of the demonstration has everything that the pages show, and ends.
func TestDemo_traffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := dashboard.NewRecorder(mem.New())
		end, err := runDemo(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*time.Minute + 5*time.Second)
		kinds := map[string]int{}
		for c, err := range driver.List(t.Context(), r, "") {
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(strings.TrimPrefix(c.Key, "~"), "/")
			kinds[kind]++
			if c.Waiting {
				kinds["waiting"]++
			}
		}
		for _, kind := range []string{"deploy", "documents", "sem", "rate", "once", "lead", "waiting"} {
			if kinds[kind] == 0 {
				t.Errorf("there is no %s in %v", kind, kinds)
			}
		}
		lost := r.Events(1, func(e dashboard.Event) bool {
			return strings.HasPrefix(e.Key, "account/") && e.Type == dashboard.EventReleased
		})
		if len(lost) == 0 {
			t.Error("no transfer has ended")
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// The command serves pages with this traffic, and ends with its ctx.
func TestServe_demo(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, err := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"serve", "--demo", "--listen", "127.0.0.1:0"}, nil, io.Discard, err)
		_ = err.Close()
	}()
	lines := bufio.NewScanner(out)
	url := ""
	for url == "" && lines.Scan() {
		_, url, _ = strings.Cut(lines.Text(), "listens on ")
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	page := func(path string) string {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for path, want := range map[string]string{"/locks": "deploy/production", "/audit": "token:ci-"} {
		text := ""
		for range 100 { // the traffic begins when the server listens, and a snapshot is two seconds old
			if text = page(path); strings.Contains(text, want) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s has no %q: %s", path, want, text)
		}
	}
	if text := page("/locks/lock/deploy/production"); !strings.Contains(text, "Break this lock") {
		t.Error("the demonstration has no Break")
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
}
