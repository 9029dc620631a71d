package testenv

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// Canary is the password in the URLs of servers that let everybody in. They do not look at it; but what shows it would
// show a password that counts. It must be in no log, error, report or list of processes: scripts/check looks for it in all that the tests say,
// and tests/secrets in what users see.
const Canary = "c4naryOfTheSuite7f3e"

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
