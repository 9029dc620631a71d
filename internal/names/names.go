// Package names has the rules of the names of locks, and the keys that the kinds of locks have for
// them in a store.
package names

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Max is how many bytes a name may have.
const Max = 255

// A Kind of lock has keys of its own in the store, so that kinds never meet. The plain lock, and
// the read/write lock that shares its keys, use the name itself; a tilde at the beginning of a name
// is doubled.
type Kind string

// The kinds.
const (
	Lock      Kind = ""
	Semaphore Kind = "~sem/"
	RateLimit Kind = "~rate/"
	Once      Kind = "~once/"
	Election  Kind = "~lead/"
	Check     Kind = "~check/" // of a readiness probe
	Notice    Kind = "~wait/"  // of a call that waits: see package deadlock
)

// Shown are the kinds that hold names of users.
var Shown = [...]Kind{Lock, Semaphore, RateLimit, Once, Election}

// Key returns the key of a name.
func (k Kind) Key(name string) string {
	if k == Lock && strings.HasPrefix(name, "~") {
		return "~" + name
	}
	return string(k) + name
}

// Word returns the kind as one word.
func (k Kind) Word() string {
	if k == Lock {
		return "lock"
	}
	return strings.Trim(string(k), "~/")
}

// Parse is the reverse of Word.
func Parse(word string) (Kind, bool) {
	for _, k := range Shown {
		if k.Word() == word {
			return k, true
		}
	}
	return "", false
}

// Split is the reverse of Key. It fails for keys that no kind made.
func Split(key string) (k Kind, name string, ok bool) {
	if !strings.HasPrefix(key, "~") {
		return Lock, key, true
	}
	if strings.HasPrefix(key, "~~") {
		return Lock, key[1:], true
	}
	for _, k := range Shown[1:] {
		if name, ok := strings.CutPrefix(key, string(k)); ok {
			return k, name, true
		}
	}
	return "", "", false
}

// Flaw returns why s is not a name, or "" if it is one. Two names are the same if and only if their
// bytes are.
func Flaw(s string) string {
	if why := TextFlaw(s, Max); why != "" {
		return why
	}
	if strings.TrimSpace(s) == "" {
		return "only spaces"
	}
	return ""
}

// TextFlaw returns why s is not a text of one line for people, or "" if it is one.
func TextFlaw(s string, most int) string {
	switch {
	case s == "":
		return "empty"
	case len(s) > most:
		return fmt.Sprintf("%s has %d bytes, more than %d", Quote(s), len(s), most)
	case !utf8.ValidString(s):
		return Quote(s) + " is not UTF-8"
	}
	for _, r := range s {
		if unicode.IsControl(r) || invisible(r) {
			return fmt.Sprintf("%s contains %U", Quote(s), r)
		}
	}
	return ""
}

// invisible reports whether r changes how a text reads without being visible: line and paragraph
// separators, marks that change the direction, and the byte order mark.
func invisible(r rune) bool {
	switch {
	case r == 0x2028, r == 0x2029, r == 0xFEFF,
		0x202A <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return false
}

// Quote returns a name or other input for an error: escaped, and at most 64 bytes of it.
func Quote(s string) string {
	const most = 64
	var b strings.Builder
	for i := 0; i < len(s); {
		_, size := utf8.DecodeRuneInString(s[i:])
		text := strconv.Quote(s[i : i+size])
		text = text[1 : len(text)-1]
		if b.Len()+len(text) > most {
			return `"` + b.String() + `"...`
		}
		b.WriteString(text)
		i += size
	}
	return `"` + b.String() + `"`
}
