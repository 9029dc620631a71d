package remote_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/remote"
)

// strict serves a store to clients with the token that is valid at the moment.
func strict(t *testing.T, valid *atomic.Pointer[string]) *httptest.Server {
	t.Helper()
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Authenticate: []server.Authenticator{func(r *http.Request) (*access.Identity, error) {
			token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			switch {
			case !ok:
				return nil, nil
			case token != *valid.Load():
				return nil, errors.New("wrong token")
			}
			return &access.Identity{Name: "token:a", Permissions: []access.Permission{{Names: "a/", Verbs: access.Acquire | access.Observe}}}, nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config = v.HTTP()
	web.Start()
	t.Cleanup(web.Close)
	return web
}

func text(s string) *string { return &s }

// The token is read again after a server refused it, so that a new one loses no lease. What is
// refused changed nothing.
func TestStore_token(t *testing.T) {
	var valid atomic.Pointer[string]
	valid.Store(text("one"))
	web := strict(t, &valid)
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := remote.Open(t.Context(), web.URL, nil); !errors.Is(err, remote.ErrUnauthenticated) || !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("DISTLOCK_TOKEN_FILE", path)
	write("one")
	s := open(t, web.URL, nil)
	ctx, r := t.Context(), request("a/x", "o")
	if res, err := s.Acquire(ctx, r); err != nil || !res.Granted {
		t.Fatal(res, err)
	}
	if s.Watch(ctx, r.ID) == nil {
		t.Error("no watch")
	}
	valid.Store(text("two"))
	renew := func() error { _, err := s.Renew(ctx, driver.Renewal{ID: r.ID, TTL: time.Minute}); return err }
	if err := renew(); !errors.Is(err, remote.ErrUnauthenticated) || !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrNotHeld) {
		t.Errorf("with an old token: %v", err)
	}
	write("two")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := renew(); err != nil {
				t.Errorf("with the new token: %v", err)
			}
		})
	}
	all.Wait()
	_, err := s.Acquire(ctx, request("b/x", "o"))
	if !errors.Is(err, remote.ErrDenied) || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), `token:a may not acquire "b/x"`) {
		t.Errorf("a name of another team: %v", err)
	}
	if err := s.Release(ctx, r.ID); err != nil {
		t.Error(err)
	}
}

// A token is sent to servers on this host, to others by TLS or if the URL says so, and never to the
// target of a redirect.
func TestStore_token_stays(t *testing.T) {
	token := func() (string, error) { return "hunter22", nil }
	for url, want := range map[string]string{
		"http://lock.example": "on its way to lock.example", "http://localhost:1,10.0.0.1:1": "on its way to 10.0.0.1:1",
		"http://lock.example?token_without_tls=true": "", "https://lock.example": "", "http://127.0.0.1:1": "", "http://[::1]:1": "",
		"http://localhost": "", "unix:/none": "", "https://lock.example?token_without_tls=true": "is for http://", "http://a?token_without_tls=1": "is for http://",
	} {
		t.Run(url, func(t *testing.T) {
			dialed := false
			_, err := remote.Open(t.Context(), url, &remote.Options{Token: token, Dial: refuse(&dialed)})
			if refused := errors.Is(err, remote.ErrURL); refused != (want != "") || !strings.Contains(err.Error(), want) || dialed == refused ||
				strings.Contains(err.Error(), "hunter22") {
				t.Errorf("%v, connected %v, want %q", err, dialed, want)
			}
		})
	}
	for name, read := range map[string]func() (string, error){
		"two lines": func() (string, error) { return "hunter22\r\nX-Evil: 1", nil },
		"no file":   func() (string, error) { return "", errors.New("no such file") },
	} {
		if _, err := remote.Open(t.Context(), "http://localhost:1", &remote.Options{Token: read}); !errors.Is(err, remote.ErrURL) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var leaked atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(true) }))
	defer target.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hunter22" {
			t.Errorf("the first server gets %q", r.Header.Get("Authorization"))
		}
		http.Redirect(w, r, target.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer web.Close()
	if _, err := remote.Open(t.Context(), web.URL, &remote.Options{Token: token}); err == nil || leaked.Load() {
		t.Errorf("a redirect: %v, followed %v", err, leaked.Load())
	}
}

// The variables of the environment.
func TestStore_token_variables(t *testing.T) {
	path, got := filepath.Join(t.TempDir(), "token"), ""
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer web.Close()
	for _, tt := range []struct{ token, file, content, want, err string }{
		{"-", "-", "", "", ""},
		{"a", "-", "", "a", ""},
		{"a", path, "b", "a", ""},
		{"-", path, " b\n", "b", ""},
		{"", "-", "", "", "DISTLOCK_TOKEN is empty"},
		{"-", path, "\n", "", "is empty"},
		{"-", path + "x", "", "", "no such file"},
	} {
		for name, value := range map[string]string{"DISTLOCK_TOKEN": tt.token, "DISTLOCK_TOKEN_FILE": tt.file} {
			t.Setenv(name, value)
			if value == "-" {
				os.Unsetenv(name)
			}
		}
		if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		got = ""
		_, err := remote.Open(t.Context(), web.URL, nil) // the other end is no lock server
		if strings.TrimPrefix(got, "Bearer ") != tt.want || errors.Is(err, remote.ErrURL) != (tt.err != "") || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
}

// refuse is a network without servers.
func refuse(dialed *bool) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		*dialed = true
		return nil, errors.New("nobody listens")
	}
}

// Deadlocks are found among the names of a team. A cycle across teams is not found, because neither
// may see the names of the other.
func TestStore_deadlock(t *testing.T) {
	for _, tt := range []struct {
		teams [2]string // the two clients
		names [2]string // what they hold, and what the other wants
		found bool
	}{
		{[2]string{"a", "a"}, [2]string{"a/1", "a/2"}, true},
		{[2]string{"a", "b"}, [2]string{"a/1", "b/1"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPipes()
			v, err := server.New(t.Context(), mem.New(), &server.Options{Authenticate: []server.Authenticator{func(r *http.Request) (*access.Identity, error) {
				team := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				both := access.Acquire | access.Observe
				id := &access.Identity{Name: "token:" + team, Permissions: []access.Permission{{Names: team + "/", Verbs: both}}}
				if team != "a" || !tt.found { // each may acquire the other's name, and sees only its own
					id.Permissions = append(id.Permissions, access.Permission{Names: "a/1", Verbs: access.Acquire}, access.Permission{Names: "b/1", Verbs: access.Acquire})
				}
				return id, nil
			}}})
			if err != nil {
				t.Fatal(err)
			}
			run(t, v.HTTP(), p)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var errs [2]error
			var all, both sync.WaitGroup
			both.Add(2)
			for i, team := range tt.teams {
				all.Go(func() {
					s := open(t, "http://localhost", &remote.Options{Dial: p.dial, Token: func() (string, error) { return team, nil }})
					l, err := distlock.New(s)
					if err != nil {
						t.Error(err)
						return
					}
					defer l.Close(context.WithoutCancel(ctx))
					errs[i] = l.Do(ctx, tt.names[i], func(ctx context.Context) error {
						both.Done()
						both.Wait()
						return l.Do(ctx, tt.names[1-i], func(context.Context) error { return nil })
					})
				})
			}
			all.Wait()
			if found := errors.Is(errs[0], distlock.ErrDeadlock) || errors.Is(errs[1], distlock.ErrDeadlock); found != tt.found {
				t.Errorf("%v: %v, %v", tt.teams, errs[0], errs[1])
			}
		})
	}
}
