// Package etcdkey has the names of keys in etcd, for the store and for the guard that reads them.
package etcdkey

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Claims is the part of a name's keys that are claims, below Base.
const Claims = "c/"

// Base returns the beginning of all keys of a name. A prefix ends in a slash.
func Base(prefix, name string) string { return prefix + "k/" + Escape(name) + "/" }

// Escape returns a text without slashes and control characters. No two texts have the same form,
// and the form of the beginning of a text is the beginning of its form.
func Escape(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '/' || c == '%' {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Unescape is the reverse of Escape.
func Unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 > len(s) {
			return "", fmt.Errorf("etcd: %q is no escaped text", s)
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", fmt.Errorf("etcd: %q is no escaped text", s)
		}
		b.Write(c)
		i += 2
	}
	return b.String(), nil
}
