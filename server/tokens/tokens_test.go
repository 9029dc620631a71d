package tokens_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/server/tokens"
)

var teamA = []access.Permission{{Names: "team-a/", Verbs: access.Acquire | access.Observe, MaxTTL: time.Hour, MaxKeep: 30 * 24 * time.Hour}}

func add(t *testing.T, path, identity string, allow []access.Permission, expires time.Time) (secret, id string) {
	t.Helper()
	secret, token, err := tokens.Add(path, identity, allow, expires)
	if err != nil {
		t.Fatal(err)
	}
	return secret, token.ID
}

func check(t *testing.T, f *tokens.File, secret, want string, err error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	r.Header.Set("Authorization", "Bearer "+secret)
	id, got := f.Authenticate(r)
	if !errors.Is(got, err) || (id != nil) != (want != "") || id != nil && id.Name != want {
		t.Errorf("%.13s: %+v, %v, want %q, %v", secret, id, got, want, err)
	}
}

// A token proves its identity until it expires or is revoked. The server notices a change of the
// file within a second.
func TestFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.toml")
		first, id := add(t, path, "ci", teamA, time.Now().Add(time.Hour))
		var log bytes.Buffer
		f, err := tokens.Open(path, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		check(t, f, first, "token:ci", nil)
		check(t, f, first[:len(first)-1], "", tokens.ErrWrong)
		check(t, f, first+"A", "", tokens.ErrWrong)
		check(t, f, "dl_"+id+"_", "", tokens.ErrWrong)
		check(t, f, "dl_", "", tokens.ErrWrong)
		check(t, f, "dl_unknown_"+first[14:], "", tokens.ErrWrong)
		check(t, f, "eyJhbGciOiJSUzI1NiJ9", "", nil) // of another kind
		check(t, f, "", "", nil)
		if got := f.Permissions("token:ci"); len(got) != 1 || got[0] != teamA[0] {
			t.Errorf("permissions: %+v", got)
		}
		if got := f.Permissions("token:c"); got != nil {
			t.Errorf("permissions of a part of the name: %+v", got)
		}

		second, _ := add(t, path, "ci", nil, time.Time{})
		time.Sleep(time.Second)
		check(t, f, second, "token:ci", nil)
		if err := tokens.Revoke(path, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		check(t, f, first, "", tokens.ErrWrong)
		check(t, f, second, "token:ci", nil)
		if _, err := f.Lookup(id); !errors.Is(err, tokens.ErrWrong) {
			t.Errorf("the session of a revoked token: %v", err)
		}

		short, shortID := add(t, path, "brief", teamA, time.Now().Add(time.Minute))
		time.Sleep(time.Second)
		check(t, f, short, "token:brief", nil)
		if got, err := f.Lookup(shortID); err != nil || got.Name != "token:brief" {
			t.Errorf("the session: %v, %v", got, err)
		}
		time.Sleep(time.Minute)
		check(t, f, short, "", tokens.ErrExpired)
		check(t, f, short[:len(short)-1], "", tokens.ErrWrong)
		if _, err := f.Lookup(shortID); !errors.Is(err, tokens.ErrExpired) {
			t.Errorf("the session of an expired token: %v", err)
		}

		// A broken file, and none, leave the content as it was.
		for _, change := range []func() error{
			func() error { return os.WriteFile(path, []byte("[[token]]\n"+second), 0o600) },
			func() error { return os.Remove(path) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			check(t, f, second, "token:ci", nil)
			if !strings.Contains(log.String(), "stays in use") || strings.Contains(log.String(), second) {
				t.Errorf("the log: %s", log.String())
			}
			log.Reset()
		}
		if _, err := tokens.Open(path, nil); !errors.Is(err, tokens.ErrFile) {
			t.Errorf("a start without the file: %v", err)
		}
		if _, _, err := tokens.Add(path, "other", teamA, time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		check(t, f, second, "", tokens.ErrWrong)
	})
}

// The file has the hash of a token and nothing else of it. A further token has the permissions of
// its identity, and the last one takes them away.
func TestAdd_Revoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.toml")
	secret, first := add(t, path, "ci", teamA, time.Time{})
	_, second := add(t, path, "ci", teamA, time.Time{})
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte(secret[14:])) {
		t.Errorf("the file has the token, %v: %s", err, text)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if _, _, err := tokens.Add(path, "ci", []access.Permission{{Names: "*", Verbs: access.All}}, time.Time{}); err == nil {
		t.Error("a further token changed the permissions of the first")
	}
	if _, _, err := tokens.Add(path, "new", nil, time.Time{}); err == nil {
		t.Error("an identity without permissions")
	}
	if err := tokens.Revoke(path, first, "unknown"); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("an unknown token: %v", err)
	}
	for n, id := range []string{first, second} {
		c, err := tokens.Read(path)
		if err != nil || len(c.Tokens) != 2-n || len(c.Rules) != 1 {
			t.Errorf("%d tokens are revoked: %+v, %v", n, c, err)
		}
		if err := tokens.Revoke(path, id); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := tokens.Read(path); err != nil || len(c.Tokens) != 0 || len(c.Rules) != 0 {
		t.Errorf("all are revoked: %+v, %v", c, err)
	}
}

// Changes at the same time are refused or all there.
func TestAdd_together(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.toml")
	var mu sync.Mutex
	var made []string
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, token, err := tokens.Add(path, "ci", teamA, time.Time{})
			if err != nil && !errors.Is(err, tokens.ErrFile) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, token.ID)
			}
		})
	}
	all.Wait()
	c, err := tokens.Read(path)
	if err != nil || len(c.Tokens) != len(made) || len(made) == 0 {
		t.Errorf("%d were made, and the file has %d, %v", len(made), len(c.Tokens), err)
	}
	if left, _ := filepath.Glob(path + ".*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

const token = "[[token]]\nid = \"a\"\nidentity = \"ci\"\nsha256 = \"" + sum + "\"\n"

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// What a file must not have. The errors name the place, and nothing of the content that is secret.
func TestRead_refuses(t *testing.T) {
	rule := func(lines string) string { return "[[permission]]\n" + lines }
	for text, want := range map[string]string{
		"x":                                "line 1 is malformed",
		"x = 1":                            `unknown key "x"`,
		token + "expire = 1":               `unknown key "token.expire"`,
		token + token:                      "token 2: there is another one",
		strings.Replace(token, "0", "", 1): "64 hexadecimal digits",
		strings.Replace(token, `"a"`, `"a_b"`, 1):                                                  "no id",
		strings.Replace(token, `"ci"`, `"token:ci"`, 1):                                            "a colon",
		strings.Replace(token, `"ci"`, `"*"`, 1):                                                   "an asterisk",
		token + "expires = \"tomorrow\"":                                                           "line 5 is malformed",
		rule(`identity = "token:ci"` + "\nnames = \"a\"\nverbs = \"acquire, fly\""):                `no verb "fly"`,
		rule(`identity = "token:ci"` + "\nnames = \"a\""):                                          `no verb ""`,
		rule(`identity = "token:ci"` + "\nnames = \"a/*\"\nverbs = \"acquire\""):                   "write team-a/",
		rule(`identity = "token:ci"` + "\nverbs = \"acquire\""):                                    "names of a permission: empty",
		rule(`identity = "*"` + "\nnames = \"a\"\nverbs = \"acquire\""):                            "is no identity",
		rule(`identity = "token:*x"` + "\nnames = \"a\"\nverbs = \"acquire\""):                     "is no identity",
		rule(`identity = "token:ci"` + "\nnames = \"a\"\nverbs = \"acquire\"\nmax_ttl = \"1\""):    "max_ttl",
		rule(`identity = "token:ci"` + "\nnames = \"a\"\nverbs = \"acquire\"\nmax_keep = \"-1h\""): "max_keep",
	} {
		path := filepath.Join(t.TempDir(), "tokens.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := tokens.Read(path)
		if !errors.Is(err, tokens.ErrFile) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), sum[:32]) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
}

// Those who may write to the file could make themselves tokens.
func TestRead_writable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes of files")
	}
	path := filepath.Join(t.TempDir(), "tokens.toml")
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := tokens.Open(path, nil)
	if err != nil || f == nil {
		t.Fatal(err)
	}
	for mode, right := range map[os.FileMode]bool{0o600: true, 0o640: true, 0o644: true, 0o620: false, 0o602: false, 0o666: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Open(path, nil); (err == nil) != right || err != nil && !errors.Is(err, tokens.ErrFile) {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if _, err := tokens.Open(filepath.Dir(path), nil); !errors.Is(err, tokens.ErrFile) {
		t.Errorf("a folder: %v", err)
	}
}

// Rules for the beginning of identities hold for all that begin so.
func TestFile_Permissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.toml")
	text := `
[[permission]]
identity = "mtls:spiffe://prod/*"
names = "prod/"
verbs = "acquire"
[[permission]]
identity = "mtls:spiffe://prod/web"
names = "web/"
verbs = "acquire,observe"
max_keep = "30d"
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := tokens.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for identity, want := range map[string]int{
		"mtls:spiffe://prod/web": 2, "mtls:spiffe://prod/db": 1, "mtls:spiffe://test/web": 0, "token:mtls:spiffe://prod/web": 0, "": 0,
	} {
		if got := f.Permissions(identity); len(got) != want {
			t.Errorf("%s: %+v", identity, got)
		}
	}
	if got := f.Permissions("mtls:spiffe://prod/web")[0].MaxKeep; got != 30*24*time.Hour {
		t.Errorf("max_keep is %v", got)
	}
}

func TestParseAllow(t *testing.T) {
	for text, want := range map[string]access.Permission{
		"team-a/=acquire,observe": {Names: "team-a/", Verbs: access.Acquire | access.Observe},
		"*=break":                 {Names: "*", Verbs: access.Break},
		"a=b=acquire":             {Names: "a=b", Verbs: access.Acquire},
	} {
		if got, err := tokens.ParseAllow(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a", "=acquire", "a=", "a=none", "a*=acquire", "a\n=acquire"} {
		if got, err := tokens.ParseAllow(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
