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

// A URL may hold quotes and & where its secrets are. In a text they are taken for a part of it: rather too much is hidden than too little.
const secretKey = `(?i)((?:[?&;\s]|%3F|%26)(?:[a-z_]*(?:password|token|secret)|sslkey)(?:=|%3D))`

var (
	// userinfo finds the password of a URL in any text: between the colon after the user and the last @ of the word. A
	// password may hold an @, as people write it wrongly. The text may be escaped, as a URL within a URL is.
	userinfo = regexp.MustCompile(`(?i)([a-z][a-z0-9+.-]*(?::|%3A)(?:/|%2F){2}[^\s:/?#@]*?)(?::|%3A)[^\s]*(@|%40)`)

	// secretKeys finds the values of keys that are secrets, in any text; secretKeysOfURL in a URL, which may have spaces.
	secretKeys      = regexp.MustCompile(secretKey + `[^\s&]+`)
	secretKeysOfURL = regexp.MustCompile(secretKey + `[^&]+`)
)

// nextNode stands between the URLs of nodes, which have secrets of their own.
const nextNode = "&node="

// Redact returns a URL, or a text with URLs in it, without passwords and other secrets.
func Redact(text string) string {
	parts := strings.Split(text, nextNode)
	for i, part := range parts {
		parts[i] = userinfo.ReplaceAllString(part, "${1}:"+hidden+"${2}")
	}
	return secretKeys.ReplaceAllString(strings.Join(parts, nextNode), "${1}"+hidden)
}

// Redactor returns Redact for texts in which the secrets of a URL may also stand alone, as they do in
// messages of servers and of the standard library.
func Redactor(text string) func(string) string {
	secrets := secretsOf(text)
	return func(s string) string {
		for _, secret := range secrets {
			s = strings.ReplaceAll(s, secret, hidden)
		}
		return Redact(s)
	}
}

// HasSecret reports whether a URL has a password or another secret in it.
func HasSecret(text string) bool {
	return Redact(text) != text || len(passwords(text)) > 0 // in a text with spaces Redact sees no URL
}

// secretsOf returns the secrets of a URL as written and as meant, the longest first. Those of one to three letters are left
// out: they are in every second word, and hiding them there would tell them.
func secretsOf(text string) []string {
	var all []string
	add := func(s string) {
		for _, form := range []string{s, unescape(s), url.QueryEscape(unescape(s)), url.PathEscape(unescape(s))} {
			// Messages quote what they show, and show no more than 64 letters of it.
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
			// A password with a delimiter that is not escaped is taken apart by whoever reads the URL, and shown in parts.
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

// passwords returns what may be a password in a URL, or in the URLs of its nodes: from the first colon behind
// the slashes to the last @. It may be too much, if there is an @ in the query.
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

// quoted is a text as it stands between the quotes of a message.
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

// redacted is err with a message that has none of the secrets of a URL.
func redacted(err error, text string) error {
	message := Redactor(text)(err.Error())
	if message == err.Error() {
		return err
	}
	return &redactedError{message, err}
}

// A redactedError hides what an error says, not what it is.
type redactedError struct {
	message string
	err     error
}

func (e *redactedError) Error() string { return e.message }

// Is looks at the error behind the message. There is no Unwrap: it would give the message away.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
