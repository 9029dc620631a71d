package open

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// ports are the schemes of the usual ports.
var ports = map[string]string{"6379": "redis", "5432": "postgres", "3306": "mysql", "26379": "redis+sentinel", "2379": "etcd", "7520": "http"}

// suggest returns the URL that a text without a scheme may stand for, such as
// redis://localhost:6379, or "" if there is none. It hides the user and the password before the
// host.
func suggest(text string) string {
	base, _, _ := strings.Cut(text, "?")
	if slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, filepath.Ext(base)) &&
		!strings.ContainsAny(base, "@") && !strings.Contains(base, "://") {
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

// hostLetters are the characters of host names and addresses.
const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:"
