//go:build unix

package tokens_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distlock/distlock/server/tokens"
)

// A server that has no file descriptor left when a token is revoked refuses the token as soon as it
// can read the file, which has not changed since.
func TestFile_no_descriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.toml")
		secret, id := add(t, path, "ci", teamA, time.Time{})
		f, err := tokens.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tokens.Revoke(path, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		var was syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		none := was
		none.Cur = 0
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
			t.Fatal(err)
		}
		check(t, f, secret, "token:ci", nil) // the last content
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		check(t, f, secret, "", tokens.ErrWrong)
	})
}
