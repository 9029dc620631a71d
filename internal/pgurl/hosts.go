package pgurl

import (
	"net/url"
	"strings"
)

// Writable adds to the parts of a query that the one of several hosts which takes writes is meant, unless they say which: on a standby nothing
// can be claimed. Base is the URL before its query.
func Writable(base string, kept []string) []string {
	_, hosts, _ := strings.Cut(base, "://")
	hosts, _, _ = strings.Cut(hosts, "/")
	hosts = hosts[strings.LastIndex(hosts, "@")+1:]
	for _, part := range kept {
		switch key, value, _ := strings.Cut(part, "="); key {
		case "target_session_attrs":
			return kept
		case "host": // which pgx takes instead
			hosts, _ = url.QueryUnescape(value)
		}
	}
	if strings.Contains(hosts, ",") {
		kept = append(kept, "target_session_attrs=read-write")
	}
	return kept
}
