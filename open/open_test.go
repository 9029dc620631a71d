package open_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/open"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, nil), testenv.IgnoreRueidis()...)
}

// use acquires and releases a claim.
func use(t *testing.T, url string) *open.Source {
	t.Helper()
	ctx := t.Context()
	if strings.HasPrefix(url, "redlock") {
		url += "&lock_node_limit=2s" // a busy machine may need it
	}
	s, err := open.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	id := driver.ID{Key: "key", Owner: "owner"}
	r, err := s.Store.Acquire(ctx, driver.Request{ID: id, Weight: driver.Whole, Limit: driver.Whole, TTL: 20 * time.Second})
	if err != nil || !r.Granted {
		t.Fatal(r, err)
	}
	if err := s.Store.Release(ctx, id); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpen_memory(t *testing.T) {
	s := use(t, "memory:?lock_ttl=7s&lock_poll=50ms")
	if s.TTL != 7*time.Second || s.Poll != 50*time.Millisecond {
		t.Error("lock_ttl and lock_poll are", s.TTL, s.Poll)
	}
}

func TestOpen_sqlite(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	use(t, "sqlite:")
	use(t, "sqlite://"+t.TempDir()+"/a.db?lock_ttl=1m")
}

func TestOpen_redis(t *testing.T) {
	r := testenv.Redis(t, testenv.Password("s3cret/@:%"), testenv.UnixSocket())
	host := ":s3cret%2F%40%3A%25@" + r.Addr
	use(t, "redis://"+host+"/0?lock_prefix=a:&lock_ttl=1s")
	use(t, "valkey://"+host)
	_, err := open.Open(t.Context(), "redis://:wrong-pass@"+r.Addr)
	if err == nil || strings.Contains(err.Error(), "wrong-pass") || errors.Is(err, open.ErrURL) {
		t.Error("with a wrong password:", err)
	}
}

func TestOpen_redlock(t *testing.T) {
	a, b, c := testenv.Redis(t), testenv.Redis(t), testenv.Redis(t)
	s := use(t, testenv.URL("redlock", a.Addr, b.Addr, c.Addr)+"/0?lock_prefix=x:")
	if f := s.Store.Features(); f.Name != "redlock" || !strings.Contains(f.MaxTTLOption, "lock_longest_ttl") {
		t.Errorf("it is called %s, and its longest TTL is raised by %q", f.Name, f.MaxTTLOption)
	}
	use(t, "redlock:?node=redis://"+a.Addr+"&node=redis%3A%2F%2F"+b.Addr+"%2F0&node=redis://"+c.Addr+"&lock_prefix=x:")
	long := use(t, testenv.URL("redlock", a.Addr, b.Addr, c.Addr)+"/0?lock_prefix=x:&lock_longest_ttl=5m")
	for ttl, want := range map[time.Duration]bool{2 * time.Minute: true, 6 * time.Minute: false} {
		r := driver.Request{ID: driver.ID{Key: "long" + ttl.String(), Owner: "me"}, Weight: driver.Whole, Limit: driver.Whole, TTL: ttl}
		if _, err := s.Store.Acquire(t.Context(), r); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("a TTL of %v by default: %v, want ErrInvalid", ttl, err)
		}
		if _, err := long.Store.Acquire(t.Context(), r); errors.Is(err, driver.ErrInvalid) == want {
			t.Errorf("a TTL of %v with lock_longest_ttl=5m: %v", ttl, err)
		}
	}
	for _, url := range []string{
		"redlock://" + a.Addr + "," + b.Addr,
		"redlock://" + a.Addr + "," + a.Addr + "," + b.Addr,
	} {
		if _, err := open.Open(t.Context(), url); !errors.Is(err, open.ErrURL) {
			t.Error(url, err)
		}
	}
}

// An error of the URL is reported once, and an error of a node with the number of the node.
func TestOpen_redlock_once(t *testing.T) {
	_, err := open.Open(t.Context(), "redlock://a,b,c,d,e?lock_prefx=x")
	if err == nil || strings.Count(err.Error(), "unknown option") != 1 || strings.Contains(err.Error(), "node") {
		t.Errorf("an option that no store knows: %v, want it once", err)
	}
	_, err = open.Open(t.Context(), "redlock:?node=redis://a/x&node=redis://b/y&node=redis://c/x")
	if err == nil || !strings.Contains(err.Error(), "node 1") ||
		!strings.Contains(err.Error(), "node 2") || !strings.Contains(err.Error(), "node 3") {
		t.Errorf("nodes that differ: %v, want each", err)
	}
}

func TestOpen_refuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                                      "no scheme",
		"localhost":                             "no scheme",
		"localhost:6379":                        "no scheme: did you mean redis://localhost:6379?",
		"localhost:6379/2?lock_ttl=1s":          "did you mean redis://localhost:6379/2?",
		"[::1]:6379":                            "did you mean redis://[::1]:6379?",
		"db.example:5432/app":                   "did you mean postgres://db.example:5432/app?",
		"db.example:3306/app":                   "did you mean mysql://db.example:3306/app?",
		"u:hunter22@db.example:5432/app":        "did you mean postgres://...@db.example:5432/app?",
		"hunter22@localhost:6379":               "did you mean redis://...@localhost:6379?",
		"hunter22@localhost:7000":               "no scheme",
		"localhost:7391":                        "no scheme, such as redis://localhost:7391",
		"10.0.0.7:7000/2":                       "no scheme, such as redis://10.0.0.7:7000",
		"user:7000hunter22@localhost:7000":      `unknown scheme "user"`,
		"hunter22@localhost":                    "no scheme",
		"sentinel.example:26379":                "did you mean redis+sentinel://sentinel.example:26379?",
		"locks.db":                              "did you mean sqlite:locks.db?",
		"/var/lib/app/locks.sqlite3":            "did you mean sqlite:/var/lib/app/locks.sqlite3?",
		"hunter22@h/locks.db":                   "no scheme",
		"reddis://h":                            "did you mean redis?",
		"ftp://u:hunter22@h":                    "unknown scheme",
		"memory://x":                            "memory:",
		"memory:?lock_ttl=5":                    "lock_ttl",
		"memory:?lock_ttl=1s&lock_ttl=2s":       "twice",
		"memory:?lock_poll=-1s":                 "lock_poll",
		"redis://:hunter22@h/0?lock_prefx":      "did you mean lock_prefix?",
		"redis://:hunter22@h:0":                 "port",
		"redis://:hunter22@h:65536":             "port",
		"redis://:hunter22@h/-1":                "number from 0",
		"redis://:hunter%zz22@h":                "%25",
		"redis://u:hunter22@":                   "host",
		"redis:///0":                            "host",
		"redis://h?tls_ca=x&tls_ca=y":           "twice",
		"redis://h?lock_prefix=x&lock_prefix=x": "twice",
		"redis://h?lock_tll=5s":                 "unknown option",
		"rediss://h?tls_sever_name=x":           "did you mean tls_server_name?",
		"rediss://h?tls_ca=nosuch.pem":          "tls_ca",
		"redis+unix://host/x":                   "redis+unix:///path",
		"redis+unix:///x?db=-1":                 "number from 0",
		"redis+sentinel://:hunter22@h":          "master_name",
		"redis+sentinel://h?master_nam=x":       "did you mean master_name?",
		"redis+sentinel://h:0?master_name=x":    "port",
		"redis+cluster://h/1":                   "database 0",
		"redis+cluster://h,:7000":               "host",
		"redlock://:hunter22@a:1,b:1,c:65536":   "node 3",
		"redlock://a,b,c/-1":                    "number from 0",
		"redlock://a,b,c?lock_prefx=x":          "did you mean lock_prefix?",
		"redlock://a,b,c?lock_longest_ttl=5":    "lock_longest_ttl",
		"redlock://a,b,c?lock_node_limit=0s":    "lock_node_limit",
		"redis://h?lock_longest_ttl=5m":         "unknown option",
		"redlock:?nod=redis://a":                "node=",
		"redlock:?node=%zz":                     "node 1",
		"redlock:":                              "node=",
		"redlock:x":                             "redlock",
		"redlock:?node=redis://:hunter22@h/x&node=redis://b&node=redis://c": "node 1",
		"sqlite:x.db?sync=1":                            "did you mean synchronous?",
		"sqlite:x.db?synchronuos=full":                  "did you mean synchronous?",
		"sqlite:x.db?holder=remote":                     "did you mean holders?",
		"sqlite:x.db?foo=1":                             `unknown key "foo": there are synchronous and holders; the command and package open also take lock_ttl and lock_poll`,
		"sqlite:x.db?synchronous=full&synchronous=full": "synchronous",
		"sqlite://host/x.db":                            "three slashes",
		strings.Repeat("x", 1e5):                        "bytes",
	} {
		s, err := open.Open(t.Context(), url)
		switch {
		case err == nil:
			s.Close()
			t.Errorf("%.80s was opened", url)
		case !errors.Is(err, open.ErrURL), !strings.Contains(err.Error(), want), strings.Contains(err.Error(), "hunter"), len(err.Error()) > 500:
			t.Errorf("%.80s: %v, want %q", url, err, want)
		}
	}
}

// No error shows a password, in any spelling and with any other mistake in the URL.
func TestOpen_hidesPasswords(t *testing.T) {
	for _, url := range []string{
		"redis://u:%s@h:x", "redis://:%s@h:0", "redis://u:%s@h/-1", "redis://u:%s@h?nosuch=1", "redis://u:%s@", "redis://u:%s@h,i",
		"reddis://u:%s@h", "redis://u:%s@h/%%zz", "redis+sentinel://u:%s@h", "redis+sentinel://h:x?master_name=m&sentinel_password=%s", "redis+cluster://u:%s@h/7",
		"redlock://u:%s@a:x,b:x,c:x", "redlock:?node=redis://u:%s@a:x&node=redis://127.0.0.1:1&node=redis://127.0.0.1:1", "sqlite://u:%s@h/x.db", "memory://u:%s@x",
		"redis://u:%s@127.0.0.1:1/x", "rediss://u:%s@h?tls_ca=/nosuch", "redis+unix://u:%s@h/x",
	} {
		for _, password := range []string{
			"canary1", "canary1@canary2", "canary1:canary2", "canary1/canary2", "canary1%canary2", "canary1?canary2", "canary1#canary2",
			"canary1%40canary2", "canary1%3Acanary2", "canary1%2Fcanary2", "canary1%25canary2", "canary1 canary2", "@:/%canary1",
		} {
			text := fmt.Sprintf(url, password)
			s, err := open.Open(t.Context(), text)
			if err == nil {
				s.Close()
				t.Errorf("%s was opened", text)
				continue
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(fmt.Sprintf("%+v %#v", err, err.Error()), "canary") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"redis://u:secret@h/0":                                         "redis://u:[redacted]@h/0",
		"redis://:sec@ret@h/0":                                         "redis://:[redacted]@h/0",
		"redis://h/0":                                                  "redis://h/0",
		`parse "redis://u:se cret@h"`:                                  `parse "redis://u:se cret@h"`,
		"redis+sentinel://h?sentinel_password=abc":                     "redis+sentinel://h?sentinel_password=[redacted]",
		"https://:token@h:1 and http://a:b@c":                          "https://:[redacted]@h:1 and http://a:[redacted]@c",
		"redlock:?node=redis%3A%2F%2Fu%3Asecret%40h&node=redis://:x@b": "redlock:?node=redis%3A%2F%2Fu:[redacted]%40h&node=redis://:[redacted]@b",
	} {
		if got := open.Redact(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	hide := open.Redactor("redis://u:p%40ss-w@h?sentinel_password=zweites")
	if got := hide("AUTH p@ss-w failed: p%40ss-w, zweites"); strings.Contains(got, "ss-w") || strings.Contains(got, "zweites") {
		t.Error(got)
	}
	if !open.HasSecret("redis://u:p@h") || open.HasSecret("redis://h") {
		t.Error("HasSecret is wrong")
	}
}

func TestOpen_gone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := open.Open(ctx, "redis://:hunter22@127.0.0.1:1")
	if err != nil {
		t.Fatal("a server that is down is no error:", err)
	}
	defer s.Close()
	_, err = s.Store.Acquire(ctx, driver.Request{ID: driver.ID{Key: "k", Owner: "o"}, Weight: 1, Limit: 1, TTL: time.Second})
	if err == nil || strings.Contains(err.Error(), "hunter22") {
		t.Error(err)
	}
}

// A redactor removes the password of its URL from every text.
func FuzzRedactor(f *testing.F) {
	f.Add("p@ss:/%?#word")
	f.Add("canary1 canary2")
	f.Fuzz(func(t *testing.T, password string) {
		const before, after = "AUTH <", "> failed for "
		text := "redis://" + url.UserPassword("u", password).String() + "@h:1/0"
		got := open.Redactor(text)(before + password + after + text)
		if len(password) > 3 && utf8.ValidString(password) && strings.Contains(got, password) &&
			!strings.Contains(before+after+"redis://u:@h:1/0[redacted]", password) {
			t.Errorf("%q: %s", password, got)
		}
	})
}

// TestLocker shows that the settings of the URL are defaults, that options come after them, and
// that Close closes the store.
func TestLocker(t *testing.T) {
	ctx := t.Context()
	l, err := open.Locker(ctx, "memory:?lock_ttl=7s")
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Lock(ctx, "x")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lease.Until()); left <= 5*time.Second || left > 7*time.Second {
		t.Errorf("with lock_ttl=7s the lease is trusted for %v", left)
	}
	if err := l.Ping(ctx); err != nil {
		t.Errorf("Ping: %v", err)
	}
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}

	file := "sqlite://" + filepath.Join(t.TempDir(), "locks.db")
	closed := 0
	l, err = open.Locker(ctx, file+"?lock_ttl=7s", distlock.TTL(time.Minute), distlock.OnClose(func() { closed++ }))
	if err != nil {
		t.Fatal(err)
	}
	if lease, err = l.Lock(ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lease.Until()); left < 20*time.Second {
		t.Errorf("with TTL(1m) the lease is trusted for %v", left)
	}
	if _, err := l.Lock(ctx, "y", distlock.OnClose(func() {})); !errors.Is(err, distlock.ErrInvalid) {
		t.Errorf("OnClose for a call: %v", err)
	}
	for range 2 {
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if closed != 1 {
		t.Errorf("the function of OnClose was called %d times", closed)
	}

	if _, err := open.Locker(ctx, file, distlock.TTL(time.Nanosecond)); !errors.Is(err, distlock.ErrInvalid) {
		t.Errorf("a wrong option: %v", err)
	}
	if _, err := open.Locker(ctx, "nothing:"); !errors.Is(err, open.ErrURL) {
		t.Errorf("a wrong URL: %v", err)
	}
}
