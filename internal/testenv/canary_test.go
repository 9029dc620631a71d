package testenv_test

import (
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

func TestLeaks(t *testing.T) {
	t.Parallel()
	secret := testenv.Canary
	for _, text := range []string{
		secret, "redis://u:" + secret + "@h", hex.EncodeToString([]byte("a" + secret + "b")), base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("a" + secret + "bc")), base64.URLEncoding.EncodeToString([]byte("ab" + secret + "c")), base64.StdEncoding.EncodeToString([]byte("\x00u\x00" + secret)),
	} {
		if len(testenv.Leaks(text, secret)) == 0 {
			t.Errorf("it is not found in %q", text)
		}
	}
	for _, text := range []string{"", secret[1:], "redis://u:[redacted]@h", base64.StdEncoding.EncodeToString([]byte(secret[2:]))} {
		if found := testenv.Leaks(text, secret); len(found) > 0 {
			t.Errorf("%q is found in %q", found, text)
		}
	}
}
