// Package secrets_test plants a password in the URLs of real stores, lets everything go well and go wrong with them, and looks for it
// in all that a program may log or print. What the command shows is looked at in cmd/distlock.
package secrets_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

// secret has the letters that URLs escape behind the part that is looked for.
const secret = testenv.Canary + "/@:%?#"

// A trace is all that was said.
type trace struct {
	mu   sync.Mutex
	text bytes.Buffer
	errs int
}

// Write takes what a logger writes.
func (r *trace) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// say notes a value in every form in which programs print values.
func (r *trace) say(what string, values ...any) {
	for _, v := range values {
		fmt.Fprintf(r, "%s: %v\n%+v\n%#v\n", what, v, v, v)
		if err, ok := v.(error); ok {
			r.mu.Lock()
			r.errs++
			r.mu.Unlock()
			r.walk(what, err)
		}
	}
}

// live notes values that others work with. To print such a one reads what they write, so the race detector would see nothing else.
func (r *trace) live(what string, values ...any) {
	if !racing {
		r.say(what, values...)
	}
}

// walk notes what is inside an error.
func (r *trace) walk(what string, err error) {
	switch inner := err.(type) { //nolint:errorlint // the tree itself is looked at
	case interface{ Unwrap() error }:
		if e := inner.Unwrap(); e != nil {
			r.say(what+" >", e)
		}
	case interface{ Unwrap() []error }:
		for _, e := range inner.Unwrap() {
			r.say(what+" >", e)
		}
	}
}

// observe notes events, and logs them at every level.
func (r *trace) observe() distlock.Observer {
	log := distlock.Log(slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})))
	return func(ctx context.Context, e distlock.Event) {
		log(ctx, e)
		e.Origin = nil // a context of the test: its values are not ours
		r.say("event", e)
		if e.Err != nil {
			r.say("event", e.Err)
		}
	}
}

// check fails the test if the secret is in what was said.
func (r *trace) check(t *testing.T, leastErrors int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.errs < leastErrors || r.text.Len() == 0 {
		t.Errorf("%d errors and %d bytes were looked at, want %d errors at least", r.errs, r.text.Len(), leastErrors)
	}
	for line := range strings.Lines(r.text.String()) {
		if found := testenv.Leaks(line, testenv.Canary); len(found) > 0 {
			t.Errorf("the password is shown: %.300s", strings.ReplaceAll(line, testenv.Canary, "(HERE)"))
		}
	}
}

// use takes, keeps, shows and gives back a lock, and lets one wait in vain.
func use(t *testing.T, r *trace, text string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	source, err := open.Open(ctx, text)
	if err != nil {
		r.say("open", err)
		return
	}
	defer source.Close()
	r.live("source", source, source.Store)
	r.say("findings", source.Findings, source.Store.Features())
	l, err := distlock.New(source.Store, distlock.Observe(r.observe()), distlock.TTL(time.Second))
	if err != nil {
		r.say("new", err)
		return
	}
	defer func() { r.say("close", l.Close(ctx)) }()
	r.live("locker", l)
	info, err := driver.Inspect(ctx, source.Store)
	r.say("inspect", info, err)
	lease, err := l.Lock(ctx, "a", distlock.MaxWait(500*time.Millisecond))
	if err != nil {
		r.say("lock", err)
		_, err = l.TryLock(ctx, "a")
		r.say("try", err)
		for _, err := range l.Claims(ctx, "") {
			r.say("claims", err)
		}
		return
	}
	r.live("lease", lease, lease.Context(ctx))
	other, err := distlock.New(source.Store, distlock.Observe(r.observe()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Lock(ctx, "a", distlock.MaxWait(50*time.Millisecond))
	r.say("wait", err)
	r.say("other", other.Close(ctx))
	why, err := l.Why(ctx, "a")
	r.say("why", why, err)
	r.say("extend", lease.Extend(ctx, time.Second))
	_, err = driver.Break(ctx, source.Store, "a", 0, "test")
	r.say("break", err)
	r.say("unlock", lease.Unlock(ctx))
}

// wrongs are URLs of a server under which everything fails, by what is wrong with them.
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
		"nobody there":     edit(func(e *url.URL) { e.Host = "127.0.0.1:1" }),
		"no such host":     edit(func(e *url.URL) { e.Host = "nosuch.invalid:1" }),
		"no such option":   edit(func(e *url.URL) { e.RawQuery += "&lock_nosuch=1" }),
		"port":             edit(func(e *url.URL) { e.Host = "127.0.0.1:65536" }),
		"not escaped":      strings.Replace(text, url.QueryEscape(secret), secret, 1),
	}
	if strings.HasPrefix(text, "redis") {
		all["TLS with a server that has none"] = strings.Replace(text, "redis://", "rediss://", 1)
		all["a database that is not there"] = edit(func(e *url.URL) { e.Path = "/99" })
	} else {
		all["TLS with a server that has none"] = strings.Replace(text, "sslmode=disable", "sslmode=require", 1)
		all["a database that is not there"] = edit(func(e *url.URL) { e.Path = "/nosuch" })
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
	use(t, &r, redlock) // one server three times: refused
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
		r.say("migrate", err)
		r.check(t, 15)
	}
}

// A password that is changed while a lock is held, and a server that goes away.
func TestSecrets_revoked(t *testing.T) {
	t.Parallel()
	redis := testenv.Redis(t, testenv.Password(secret))
	postgres := testenv.Postgres(t, testenv.Password(secret))
	for name, tt := range map[string]struct {
		url    string
		revoke func(ctx context.Context) error
	}{
		"redis": {redis.URL, func(ctx context.Context) error {
			_, err := redis.Do(ctx, "CONFIG", "SET", "requirepass", "another")
			redis.Kill()
			return err
		}},
		"postgres": {postgres.URL, func(ctx context.Context) error {
			// The new password counts before the connections end: a client that returns in between
			// would keep its connection.
			_, err := postgres.Query(ctx, "begin; alter role postgres password 'another'; commit; select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'")
			return err
		}},
	} {
		revoked(t, name, tt.url, tt.revoke)
	}
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
	l, err := distlock.New(source.Store, distlock.Observe(r.observe()), distlock.TTL(500*time.Millisecond))
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
	r.say("lost", lease.Err(), context.Cause(lease.Context(ctx)), lease.Unlock(ctx))
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = l.Lock(short, "b")
	r.say("lock", err)
	r.say("close", l.Close(short))
	r.check(t, 4)
}
