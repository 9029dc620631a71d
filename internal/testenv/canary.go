package testenv

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Canary is the password in the URLs of servers that let everybody in. They do not look at it; but what shows it would
// show a password that counts. It must be in no log, error, report or list of processes: scripts/check looks for it in all that the tests say
// and in the list while they run, and tests/secrets in what users see.
const Canary = "c4naryOfTheSuite7f3e"

// URL is that of plain servers, or of proxies before them, with the canary in it: of one Redis server, or of the nodes of a majority.
func URL(scheme string, addrs ...string) string {
	// The default user has no password, and may say any. Without a user a password would be refused.
	return scheme + "://default:" + Canary + "@" + strings.Join(addrs, ",")
}

// Leaks returns the forms in which a text shows a secret: as it is, in hex and in base64, also as part of a longer text.
func Leaks(text, secret string) []string {
	var found []string
	look := func(form string) {
		if strings.Contains(text, form) {
			found = append(found, form)
		}
	}
	look(secret)
	look(hex.EncodeToString([]byte(secret)))
	// Three bytes are four letters: what stands before the secret decides which letters it has. Those at the ends are shared with others.
	for before := range 3 {
		b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		from := (before*8 + 5) / 6
		look(b[from : len(b)-1])
	}
	return found
}

// shown is an error if the list of processes would show the canary with a command.
func shown(cmd *exec.Cmd) error {
	if len(Leaks(strings.Join(cmd.Args, " "), Canary)) == 0 {
		return nil
	}
	return fmt.Errorf("testenv: the arguments of %s have a password in them, and everybody sees them: tell it by standard input", filepath.Base(cmd.Path))
}
