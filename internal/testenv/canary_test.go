package testenv_test

import (
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// A plain server accepts the password of its URL. The URL of several servers contains the password
// too.
func TestURL(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.Shared())
	if os.Getenv("DISTLOCK_TEST_REDIS") == "" {
		is(t, testenv.URL("redis", r.Addr)+"/0", r.URL)
		is(t, do(t, r, "AUTH", "default", testenv.Canary), "OK")
	}
	is(t, testenv.URL("redlock", "a:1", "b:2"), "redlock://default:"+testenv.Canary+"@a:1,b:2")
}

// No test that breaks something builds a URL without a password from an address. Output with such a
// URL could show no password, so no check would find a leak.
func TestURL_everywhere(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`"(redis|rediss|redlock)://" ?\+`)
	read := 0
	err := filepath.WalkDir("../../tests", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if read++; err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if bare.MatchString(line) {
				t.Errorf("%s: use testenv.URL: %s", path, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if read < 20 {
		t.Errorf("%d files were read", read)
	}
}

func TestLeaks(t *testing.T) {
	t.Parallel()
	secret := testenv.Canary
	for _, text := range []string{
		secret, "redis://u:" + secret + "@h", hex.EncodeToString([]byte("a" + secret + "b")), base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("a" + secret + "bc")), base64.URLEncoding.EncodeToString([]byte("ab" + secret + "c")), base64.StdEncoding.EncodeToString([]byte("\x00u\x00" + secret)),
	} {
		if len(testenv.Leaks(text, secret)) == 0 {
			t.Errorf("the secret is not found in %q", text)
		}
	}
	for _, text := range []string{"", secret[1:], "redis://u:[redacted]@h", base64.StdEncoding.EncodeToString([]byte(secret[2:]))} {
		if found := testenv.Leaks(text, secret); len(found) > 0 {
			t.Errorf("%q is found in %q", found, text)
		}
	}
}
