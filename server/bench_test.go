package server_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	api "github.com/distlock/distlock/api/distlock/v1"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/message"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
	"github.com/distlock/distlock/store/mem"
)

// The cost of a token and of the audit: an acquire and a release, by one client.
func BenchmarkServer(b *testing.B) {
	b.Run("anonymous", func(b *testing.B) {
		pairs(b, &server.Options{Anonymous: access.Everything("anonymous")}, "")
	})
	b.Run("token and audit", func(b *testing.B) {
		dir := b.TempDir()
		path := filepath.Join(dir, "tokens.toml")
		secret, _, err := tokens.Add(path, "ci", []access.Permission{{Names: "team-a/", Verbs: access.Acquire}}, time.Time{})
		if err != nil {
			b.Fatal(err)
		}
		file, err := tokens.Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		out, err := os.Create(filepath.Join(dir, "audit"))
		if err != nil {
			b.Fatal(err)
		}
		defer out.Close()
		audit := server.NewAudit(out)
		defer audit.Close()
		pairs(b, &server.Options{
			Authenticate: []server.Authenticator{file.Authenticate}, Permissions: file.Permissions, Audit: audit,
		}, secret)
		if audit.Lost() > 0 {
			b.Errorf("%d entries of the audit were lost", audit.Lost())
		}
	})
}

func pairs(b *testing.B, opt *server.Options, token string) {
	v, err := server.New(b.Context(), mem.New(), opt)
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config = v.HTTP()
	web.Start()
	defer web.Close()
	c := api.NewStoreClient(web.Client(), web.URL)
	ctx, info := connect.NewClientContext(b.Context())
	info.RequestHeader().Set("Authorization", "Bearer "+token)
	r := driver.Request{ID: driver.ID{Key: "team-a/x", Owner: "o"}, Weight: driver.Whole, Limit: driver.Whole, TTL: time.Minute}
	for b.Loop() {
		if m, err := c.Acquire(ctx, message.Request(r)); err != nil || !m.GetGranted() {
			b.Fatal(m, err)
		}
		if _, err := c.Release(ctx, &api.ReleaseRequest{Id: message.ID(r.ID)}); err != nil {
			b.Fatal(err)
		}
	}
}
