package dashboard

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/names"
)

// nouns are the kinds of locks for people.
var nouns = map[names.Kind]string{
	names.Lock: "lock", names.Semaphore: "semaphore", names.RateLimit: "rate limit", names.Once: "result", names.Election: "election",
}

// text returns a text of others for people. A text that does not look like what it is, such as one
// with characters that cannot be seen, is quoted, and these characters are escaped.
func text(s string) string {
	odd := s == "" || s != strings.TrimSpace(s) || strings.Contains(s, "  ")
	for _, r := range s {
		odd = odd || r == unicode.ReplacementChar || !unicode.IsPrint(r) || blank(r)
	}
	if !odd {
		return s
	}
	var b strings.Builder
	for _, r := range strconv.Quote(s) {
		if blank(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// blank reports whether a letter or symbol cannot be seen.
func blank(r rune) bool {
	switch r {
	case 0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0:
		return true
	}
	return false
}

// holder returns the holder of a claim for people.
func holder(s string) string {
	if s == "" {
		return "a holder without a name"
	}
	return text(s)
}

// span returns a duration for people: "3 min 12 s". The script of the pages has the same function.
func span(d time.Duration) string {
	switch s := int(d / time.Second); {
	case s < 1:
		return "under 1 s"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
	}
}

// brief returns the time of a call: "0.42 ms".
func brief(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// exact returns a time with everything that is known of it.
func exact(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// clock returns the time of day, and also the date if it is another than that of now.
func clock(now, t time.Time) string {
	if now, t = now.UTC(), t.UTC(); now.Format(time.DateOnly) != t.Format(time.DateOnly) {
		return t.Format("2006-01-02 15:04:05 UTC")
	}
	return t.Format("15:04:05 UTC")
}

// count returns a number with its noun: "1 waiter", "1,024 waiters".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// number returns a number with commas.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plainName matches the names that are part of a path as they are. Browsers and routers change
// other paths: they remove dots and double slashes, and decode "%2f".
var plainName = regexp.MustCompile(`^[A-Za-z0-9_@=,+~-][A-Za-z0-9_@=,+~.:-]*(/[A-Za-z0-9_@=,+~-][A-Za-z0-9_@=,+~.:-]*)*$`)

// lockPath returns the address of the page of a lock, from the root of the dashboard. A name that
// cannot be a path is a parameter.
func lockPath(k names.Kind, name string) string {
	if plainName.MatchString(name) {
		return "locks/" + k.Word() + "/" + name
	}
	return "locks/" + k.Word() + "/?name=" + url.QueryEscape(name)
}

// share returns which part of the limit a claim takes, in words.
func (c claimView) share() string {
	switch {
	case c.Limit == driver.Whole && c.Weight == driver.Whole:
		return "exclusive"
	case c.Limit == driver.Whole:
		return "shared"
	default:
		return fmt.Sprintf("%d of %d", c.Weight, c.Limit)
	}
}

// noteKey is the key of a note in the metadata of a claim, as the library stores it.
const noteKey = "_note"
