// Package secrets_test puts a password into the URLs of real stores, makes calls succeed and fail,
// and searches for the password in all values that a program may log or print. The tests of
// cmd/distlock check the output of the command.
package secrets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
	"github.com/distlock/distlock/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

// secret ends with characters that URLs escape. The part before them is searched for.
const secret = testenv.Canary + "/@:%?#"

// A trace collects all texts that a program may print.
type trace struct {
	mu   sync.Mutex
	text bytes.Buffer
	errs int
}

// Write collects the output of a logger.
func (r *trace) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// add collects values in every format in which programs print values.
func (r *trace) add(what string, values ...any) {
	for _, v := range values {
		fmt.Fprintf(r, "%s: %v\n%+v\n%#v\n", what, v, v, v)
		if err, ok := v.(error); ok {
			r.mu.Lock()
			r.errs++
			r.mu.Unlock()
			r.addCauses(what, err)
		}
	}
}

// addLive collects values that other goroutines use. Printing such a value reads fields that they
// write, so addLive does nothing under the race detector.
func (r *trace) addLive(what string, values ...any) {
	if !raceDetector {
		r.add(what, values...)
	}
}

// addCauses collects the errors that an error wraps.
func (r *trace) addCauses(what string, err error) {
	switch inner := err.(type) { //nolint:errorlint // the test walks the tree itself
	case interface{ Unwrap() error }:
		if e := inner.Unwrap(); e != nil {
			r.add(what+" >", e)
		}
	case interface{ Unwrap() []error }:
		for _, e := range inner.Unwrap() {
			r.add(what+" >", e)
		}
	}
}

// observe collects events, and logs them at every level.
func (r *trace) observe() distlock.Observer {
	log := distlock.Log(slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return func(ctx context.Context, e distlock.Event) {
		log(ctx, e)
		e.Origin = nil // a context of the test, not of the library
		r.add("event", e)
		if e.Err != nil {
			r.add("event", e.Err)
		}
	}
}

// check fails the test if the secret is in the collected texts.
func (r *trace) check(t *testing.T, leastErrors int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errs < leastErrors || r.text.Len() == 0 {
		t.Errorf("%d errors and %d bytes were checked, want at least %d errors", r.errs, r.text.Len(),
			leastErrors)
	}
	for line := range strings.Lines(r.text.String()) {
		if found := testenv.Leaks(line, testenv.Canary); len(found) > 0 {
			t.Errorf("the password is shown: %.300s", strings.ReplaceAll(line, testenv.Canary, "(HERE)"))
		}
	}
}

// use acquires, extends, lists and releases a lock, and lets another call time out.
func use(t *testing.T, r *trace, text string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	source, err := open.Open(ctx, text)
	if err != nil {
		r.add("open", err)
		return
	}
	defer source.Close()
	r.addLive("source", source, source.Store)
	r.add("findings", source.Findings, source.Store.Features())
	l, err := distlock.New(source.Store, distlock.Observe(r.observe()), distlock.TTL(time.Second))
	if err != nil {
		r.add("new", err)
		return
	}
	defer func() { r.add("close", l.Close(ctx)) }()
	r.addLive("locker", l)
	info, err := driver.Inspect(ctx, source.Store)
	r.add("inspect", info, err)
	lease, err := l.Lock(ctx, "a", distlock.MaxWait(500*time.Millisecond))
	if err != nil {
		r.add("lock", err)
		_, err = l.TryLock(ctx, "a")
		r.add("try", err)
		for _, err := range l.List(ctx, distlock.KindAny, "") {
			r.add("claims", err)
		}
		return
	}
	r.addLive("lease", lease, lease.Context(ctx))
	other, err := distlock.New(source.Store, distlock.Observe(r.observe()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Lock(ctx, "a", distlock.MaxWait(50*time.Millisecond))
	r.add("wait", err)
	r.add("other", other.Close(ctx))
	why, err := l.Status(ctx, distlock.KindLock, "a")
	r.add("why", why, err)
	r.add("extend", lease.Extend(ctx, time.Second))
	_, err = driver.Break(ctx, source.Store, "a", 0, "test")
	r.add("break", err)
	r.add("unlock", lease.Unlock(ctx))
}

// wrongs returns URLs with a mistake, by the name of the mistake. All calls fail with them.
func wrongs(t *testing.T, text string) map[string]string {
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(u *url.URL)) string {
		e := *u
		f(&e)
		return e.String()
	}
	all := map[string]string{
		"another password": edit(func(e *url.URL) { e.User = url.UserPassword(u.User.Username(), secret+"x") }),
		"another user":     edit(func(e *url.URL) { e.User = url.UserPassword("nobody", secret) }),
		"no server":        edit(func(e *url.URL) { e.Host = "127.0.0.1:1" }),
		"no such host":     edit(func(e *url.URL) { e.Host = "nosuch.invalid:1" }),
		"no such option":   edit(func(e *url.URL) { e.RawQuery += "&lock_nosuch=1" }),
		"port":             edit(func(e *url.URL) { e.Host = "127.0.0.1:65536" }),
		"not escaped":      strings.Replace(text, url.QueryEscape(secret), secret, 1),
	}
	if strings.HasPrefix(text, "redis") {
		all["TLS with a server without TLS"] = strings.Replace(text, "redis://", "rediss://", 1)
		all["a missing database"] = edit(func(e *url.URL) { e.Path = "/99" })
	} else {
		all["TLS with a server without TLS"] = strings.Replace(text, "sslmode=disable",
			"sslmode=require", 1)
		all["a missing database"] = edit(func(e *url.URL) { e.Path = "/nosuch" })
	}
	return all
}

func TestSecrets_redis(t *testing.T) {
	t.Parallel()
	srv := testenv.Redis(t, testenv.Password(secret))
	var r trace
	use(t, &r, srv.URL)
	redlock := "redlock:"
	for i, sep := range []string{"?node=", "&node=", "&node="} {
		redlock += sep + url.QueryEscape(fmt.Sprintf("%s/%d", strings.TrimSuffix(srv.URL, "/0"), i))
	}
	use(t, &r, redlock) // the same server three times is refused
	for what, text := range wrongs(t, srv.URL) {
		t.Log(what)
		use(t, &r, text)
	}
	r.check(t, 30)
}

func TestSecrets_redlock(t *testing.T) {
	t.Parallel()
	var r trace
	text := "redlock:"
	var nodes []*testenv.RedisServer
	for _, sep := range []string{"?node=", "&node=", "&node="} {
		n := testenv.Redis(t, testenv.Password(secret))
		nodes = append(nodes, n)
		text += sep + url.QueryEscape(n.URL)
	}
	use(t, &r, text)
	nodes[0].Kill()
	nodes[1].Kill()
	use(t, &r, text)
	r.check(t, 8)
}

func TestSecrets_postgres(t *testing.T) {
	t.Parallel()
	srv := testenv.Postgres(t, testenv.Password(secret))
	for _, mode := range []string{"table", "advisory"} {
		var r trace
		use(t, &r, srv.URL+"&lock_mode="+mode)
		for what, text := range wrongs(t, srv.URL+"&lock_mode="+mode) {
			t.Log(mode, what)
			use(t, &r, text)
		}
		_, _, err := open.Migrate(t.Context(), wrongs(t, srv.URL)["another password"])
		r.add("migrate", err)
		r.check(t, 15)
	}
}

func TestSecrets_mariadb(t *testing.T) {
	t.Parallel()
	srv := testenv.MariaDB(t, testenv.Password(secret))
	var r trace
	use(t, &r, srv.URL)
	for what, text := range wrongs(t, srv.URL) {
		t.Log(what)
		use(t, &r, text)
	}
	_, _, err := open.Migrate(t.Context(), wrongs(t, srv.URL)["another password"])
	r.add("migrate", err)
	r.check(t, 10)
}

// The password is changed while a lock is held, and the server closes the connection.
func TestSecrets_revoked(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(t *testing.T, url string) string{
		"direct": func(_ *testing.T, url string) string { return url }, "lock server": serve,
	} {
		redis := testenv.Redis(t, testenv.Password(secret))
		revoked(t, "redis, "+name, through(t, redis.URL), func(ctx context.Context) error {
			_, err := redis.Do(ctx, "CONFIG", "SET", "requirepass", "another")
			redis.Kill()
			return err
		})
		postgres := testenv.Postgres(t, testenv.Password(secret))
		revoked(t, "postgres, "+name, through(t, postgres.URL), func(ctx context.Context) error {
			// The new password is set before the connections are closed. Otherwise a client that
			// reconnects in between would keep its connection.
			_, err := postgres.Query(ctx,
				"begin; alter role postgres password 'another'; commit; select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'")
			return err
		})
	}
}

// A token that is revoked while a lock is held appears neither at its client nor in the log and the
// audit of the server.
func TestSecrets_token(t *testing.T) {
	t.Setenv("DISTLOCK_TOKEN", secret)
	var lines, logged, errs bytes.Buffer
	var valid atomic.Bool
	valid.Store(true)
	audit := server.NewAudit(&lines)
	v, err := server.New(t.Context(), mem.New(), &server.Options{
		Audit: audit, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Authenticate: []server.Authenticator{func(r *http.Request) (*access.Identity, error) {
			if r.Header.Get("Authorization") != "Bearer "+secret || !valid.Load() {
				return nil, tokens.ErrWrong
			}
			return access.Everything("token:test"), nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(v)
	web.Config = v.HTTP()
	web.Config.ErrorLog = log.New(&errs, "", 0)
	web.Start()
	revoked(t, "token", web.URL, func(context.Context) error { valid.Store(false); return nil })
	web.Close()
	if err := audit.Close(); err != nil {
		t.Fatal(err)
	}
	if text := lines.String() + logged.String() + errs.String(); strings.Contains(text, secret) || !strings.Contains(text, `"outcome":"unauthenticated"`) {
		t.Errorf("the server has written %s", strings.ReplaceAll(text, secret, "[the token]"))
	}
}

// serve starts a lock server of a store, whose password its clients do not know.
func serve(t *testing.T, url string) string {
	t.Helper()
	source, err := open.Open(t.Context(), url)
	if err != nil {
		t.Fatal(errors.New(open.Redact(err.Error())))
	}
	t.Cleanup(source.Close)
	v, err := server.New(t.Context(), source.Store, &server.Options{Anonymous: access.Everything("test")})
	if err != nil {
		t.Fatal(errors.New(open.Redact(err.Error())))
	}
	web := httptest.NewServer(v)
	t.Cleanup(web.Close)
	return web.URL
}

func revoked(t *testing.T, name, text string, revoke func(context.Context) error) {
	t.Helper()
	var r trace
	ctx := t.Context()
	source, err := open.Open(ctx, text)
	if err != nil {
		t.Fatal(name, errors.New(open.Redact(err.Error())))
	}
	defer source.Close()
	l, err := distlock.New(source.Store, distlock.Observe(r.observe()),
		distlock.TTL(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Lock(ctx, "a")
	if err != nil {
		t.Fatal(name, errors.New(open.Redact(err.Error())))
	}
	if err := revoke(ctx); err != nil {
		t.Fatal(name, errors.New(open.Redact(err.Error())))
	}
	<-lease.Done()
	r.add("lost", lease.Err(), context.Cause(lease.Context(ctx)), lease.Unlock(ctx))
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = l.Lock(short, "b")
	r.add("lock", err)
	r.add("close", l.Close(short))
	r.check(t, 4)
}
