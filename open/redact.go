package open

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const hidden = "[redacted]"

// The secrets of a URL may contain quotes and &. In a text, these count as part of the secret: it
// is better to hide too much than too little.
const secretKey = `(?i)((?:[?&;\s]|%3F|%26)(?:[a-z_]*(?:password|token|secret)|sslkey)(?:=|%3D))`

var (
	// userinfo finds the password of a URL in any text: between the colon after the user and the
	// last @ of the word, because users forget to escape an @ in a password. The text may be
	// escaped, as a URL within a URL is.
	userinfo = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*(?::|%3A)(?:/|%2F){2}[^\s:/?#@]*?)(?::|%3A)[^\s]*(@|%40)`)

	// secretKeys finds the values of secret keys in any text, and secretKeysOfURL in a URL, which
	// may contain spaces.
	secretKeys      = regexp.MustCompile(secretKey + `[^\s&]+`)
	secretKeysOfURL = regexp.MustCompile(secretKey + `[^&]+`)
)

// nextNode separates the URLs of nodes, which have their own secrets.
const nextNode = "&node="

// Redact returns a URL, or a text with URLs in it, without passwords and other secrets.
func Redact(text string) string {
	parts := strings.Split(text, nextNode)
	for i, part := range parts {
		parts[i] = userinfo.ReplaceAllString(part, "${1}:"+hidden+"${2}")
	}
	return secretKeys.ReplaceAllString(strings.Join(parts, nextNode), "${1}"+hidden)
}

// Redactor returns a function like [Redact] that also hides the secrets of a URL where they appear
// alone, as in messages of servers and of the standard library.
func Redactor(text string) func(string) string {
	secrets := secretsOf(text)
	return func(s string) string {
		for _, secret := range secrets {
			s = strings.ReplaceAll(s, secret, hidden)
		}
		return Redact(s)
	}
}

// HasSecret reports whether a URL contains a password or another secret.
func HasSecret(text string) bool {
	return Redact(text) != text || len(passwords(text)) > 0 // Redact finds no URL in a text with spaces
}

// secretsOf returns the secrets of a URL, escaped and unescaped, the longest first. It leaves out
// secrets of one to three letters: they are part of many words, and hiding them there would reveal
// them.
func secretsOf(text string) []string {
	var all []string
	add := func(s string) {
		for _, form := range []string{s, unescape(s), url.QueryEscape(unescape(s)), url.PathEscape(unescape(s))} {
			// Messages quote the texts that they show, and cut them at 64 letters.
			for _, shown := range []string{form, quoted("%q", form), quoted("%.64q", form)} {
				if len(shown) > 3 && !slices.Contains(all, shown) {
					all = append(all, shown)
				}
			}
		}
	}
	for _, t := range []string{text, unescape(text)} {
		for _, secret := range passwords(t) {
			add(secret)
			// URL parsers split a password at a delimiter that is not escaped, and show the parts.
			for _, part := range strings.FieldsFunc(secret, func(r rune) bool { return strings.ContainsRune("/?#@: &=", r) }) {
				add(part)
			}
		}
		for _, at := range secretKeysOfURL.FindAllStringSubmatchIndex(t, -1) {
			add(t[at[3]:at[1]])
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// passwords returns the possible passwords of a URL and of the URLs of its nodes: from the first
// colon after the slashes to the last @. A result is too long if the query contains an @.
func passwords(text string) []string {
	var all []string
	for {
		_, rest, ok := strings.Cut(text, "://")
		if !ok {
			return all
		}
		own, _, _ := strings.Cut(rest, nextNode)
		if at := strings.LastIndex(own, "@"); at >= 0 {
			if _, secret, ok := strings.Cut(own[:at], ":"); ok {
				all = append(all, secret)
			}
		}
		text = rest
	}
}

// quoted returns a text as it appears between the quotes of a message.
func quoted(format, s string) string {
	q := fmt.Sprintf(format, s)
	return q[1 : len(q)-1]
}

func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// redacted returns err with a message without the secrets of a URL.
func redacted(err error, text string) error {
	message := Redactor(text)(err.Error())
	if message == err.Error() {
		return err
	}
	return &redactedError{message, err}
}

// A redactedError hides the message of an error, but not its identity.
type redactedError struct {
	message string
	err     error
}

func (e *redactedError) Error() string { return e.message }

// Is compares the hidden error. There is no Unwrap, which would reveal the message.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
