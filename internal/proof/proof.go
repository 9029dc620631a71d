// Package proof has the text of a proof: fence, mode and lock of a lease as one word. The lock is
// the key of its kind and name: that of a plain lock is the name.
package proof

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/distlock/distlock/internal/names"
)

// MaxFence is the first number that is no longer a fence: above it, a float64 cannot represent
// every integer.
const MaxFence = 1 << 53

// Format returns the text of a proof: 1763191200000000;exclusive;invoice%2F42.
func Format(fence uint64, mode, key string) string {
	return fmt.Sprintf("%d;%s;%s", fence, mode, url.QueryEscape(key))
}

// Parse reads the result of Format, with a valid fence and key, and any mode.
func Parse(s string) (fence uint64, mode, key string, err error) {
	parts := strings.SplitN(s, ";", 4) // a fourth part is invalid
	if len(parts) != 3 {
		return 0, "", "", fmt.Errorf("%s is not fence;mode;name", names.Quote(s))
	}
	if fence, err = ParseFence(parts[0]); err != nil {
		return 0, "", "", err
	}
	key, err = url.QueryUnescape(parts[2])
	if err != nil || KeyFlaw(key) != "" {
		return 0, "", "", fmt.Errorf("name %s", names.Quote(parts[2]))
	}
	return fence, parts[1], key, nil
}

// KeyFlaw returns why a key is not that of a name, or "" if it is one.
func KeyFlaw(key string) string {
	_, name, ok := names.Split(key)
	if !ok {
		return names.Quote(key) + " begins with a tilde and names no kind of lock"
	}
	return names.Flaw(name)
}

// ParseFence reads a fence in its canonical form: digits, no sign, no leading zero, 1 to 2^53-1.
func ParseFence(s string) (uint64, error) {
	f, err := strconv.ParseUint(s, 10, 64)
	if err != nil || f == 0 || f >= MaxFence || strconv.FormatUint(f, 10) != s {
		return 0, fmt.Errorf("fence %s is not a number from 1 to 2^53-1", names.Quote(s))
	}
	return f, nil
}
