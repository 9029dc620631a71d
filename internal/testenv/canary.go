package testenv

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Canary is the password in the URLs of servers that accept any password. The servers ignore it,
// but code that shows it would also show a real password. It must be in no log, error, report or
// process list. scripts/check searches for it in all output of the tests and in the process list
// while they run, and tests/secrets in everything that users see.
const Canary = "c4naryOfTheSuite7f3e"

// URL returns the URL, with the canary in it, of plain servers or of proxies in front of them: of
// one Redis server, or of the nodes of a majority.
func URL(scheme string, addrs ...string) string {
	// The default user has no password and accepts any. Without a user, Redis would refuse a
	// password.
	return scheme + "://default:" + Canary + "@" + strings.Join(addrs, ",")
}

// Leaks returns the forms in which a text shows a secret: as it is, in hex and in base64, also as
// part of a longer text.
func Leaks(text, secret string) []string {
	var found []string
	look := func(form string) {
		if strings.Contains(text, form) {
			found = append(found, form)
		}
	}
	look(secret)
	look(hex.EncodeToString([]byte(secret)))
	// Base64 encodes three bytes as four characters. The number of bytes before the secret decides
	// its characters. The characters at both ends are shared with other bytes.
	for before := range 3 {
		b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		from := (before*8 + 5) / 6
		look(b[from : len(b)-1])
	}
	return found
}

// shown returns an error if the process list would show the canary in the arguments of cmd.
func shown(cmd *exec.Cmd) error {
	if len(Leaks(strings.Join(cmd.Args, " "), Canary)) == 0 {
		return nil
	}
	return fmt.Errorf("testenv: the arguments of %s contain a password that all users can see: pass it on standard input", filepath.Base(cmd.Path))
}
