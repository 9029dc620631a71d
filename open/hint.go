package open

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// ports are the schemes that the usual ports are for.
var ports = map[string]string{"6379": "redis", "5432": "postgres", "26379": "redis+sentinel"}

// meant is the URL that a text without a scheme may stand for, such as redis://localhost:6379. It
// is empty if nothing is like it. Before the host there may be a user and a password, which are not
// shown.
func meant(text string) string {
	base, _, _ := strings.Cut(text, "?")
	if slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, filepath.Ext(base)) && !strings.ContainsAny(base, "@") && !strings.Contains(base, "://") {
		return "sqlite:" + base
	}
	authority, path, _ := strings.Cut(base, "/")
	before := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		before, authority = "...@", authority[at+1:]
	}
	host, port, err := net.SplitHostPort(authority)
	scheme := ports[port]
	if err != nil || scheme == "" || strings.Trim(host, hostLetters) != "" {
		return ""
	}
	if path != "" {
		path = "/" + path
	}
	return scheme + "://" + before + authority + path
}

// hostLetters are those of names and addresses.
const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
