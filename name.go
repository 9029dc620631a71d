package distlock

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName   = 255      // bytes of a name
	maxHolder = 128      // bytes of a holder
	maxValue  = 64 << 10 // bytes of a value or a result
)

// A kind of lock has keys of its own in the store, so that kinds never meet. The plain lock, and the
// read/write lock that shares its keys, use the name itself; a tilde at the beginning of a name is
// doubled.
type kind string

const (
	kindLock  kind = ""
	kindSem   kind = "~sem/"
	kindRate  kind = "~rate/"
	kindOnce  kind = "~once/"
	kindLead  kind = "~lead/"
	kindCheck kind = "~check/" // Locker.Check
	kindWait  kind = "~wait/"  // notices of calls that wait: see internal/deadlock
)

// shownKinds are the kinds that hold what people named.
var shownKinds = [...]kind{kindLock, kindSem, kindRate, kindOnce, kindLead}

// key is the key of a name.
func (k kind) key(name string) string {
	if k == kindLock && strings.HasPrefix(name, "~") {
		return "~" + name
	}
	return string(k) + name
}

// word returns the kind as Claim.Kind has it.
func (k kind) word() string { return strings.Trim(string(k), "~/") }

// splitKey is the reverse of key. It fails for keys that no kind made.
func splitKey(key string) (k kind, name string, ok bool) {
	if !strings.HasPrefix(key, "~") {
		return kindLock, key, true
	}
	if strings.HasPrefix(key, "~~") {
		return kindLock, key[1:], true
	}
	for _, k := range shownKinds[1:] {
		if name, ok := strings.CutPrefix(key, string(k)); ok {
			return k, name, true
		}
	}
	return "", "", false
}

// checkName returns an ErrInvalidName if a name is not valid. Every other string is a name on every
// store. Two names are the same if and only if their bytes are.
func checkName(name string) error {
	if why := flaw(name, maxName); why != "" {
		return fmt.Errorf("%w: %s", ErrInvalidName, why)
	}
	if strings.TrimSpace(name) == "" {
		return fmt.Errorf("%w: only spaces", ErrInvalidName)
	}
	return nil
}

// flaw returns why s is not a text of one line for people, or "" if it is.
func flaw(s string, most int) string {
	switch {
	case s == "":
		return "empty"
	case len(s) > most:
		return fmt.Sprintf("%s has %d bytes, more than %d", quote(s), len(s), most)
	case !utf8.ValidString(s):
		return fmt.Sprintf("%s is not UTF-8", quote(s))
	}
	for _, r := range s {
		if unicode.IsControl(r) || invisible(r) {
			return fmt.Sprintf("%s contains %U", quote(s), r)
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
