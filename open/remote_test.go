package open_test

import (
	"errors"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
)

// A program that uses a lock server differs from others by its URL alone.
func TestOpen_server(t *testing.T) {
	v, err := server.New(t.Context(), mem.New(), &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(v)
	t.Cleanup(web.Close)
	finds(t, use(t, web.URL+"?lock_ttl=3s"), "ok: traffic stays on this host")
	finds(t, use(t, web.URL+"?store_id="+v.Identity()), "ok: traffic stays on this host")

	path := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	h := v.HTTP()
	go func() { _ = h.Serve(l) }()
	t.Cleanup(func() { _ = h.Close() })
	finds(t, use(t, "unix:"+path), "ok: traffic stays on this host (a socket)")
}

func TestOpen_server_refuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://u:hunter22@h":     "a user or a password",
		"http://h?token=hunter22": "unknown key",
		"unix:relative":           "the path of a socket",
		"127.0.0.1:7520":          "did you mean http://127.0.0.1:7520?",
	} {
		_, err := open.Open(t.Context(), url)
		if !errors.Is(err, open.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	if _, err := open.Open(t.Context(), "http://127.0.0.1:1"); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, open.ErrURL) {
		t.Errorf("nobody listens: %v", err)
	}
}
