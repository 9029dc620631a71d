package pgurl

import (
	"net/url"
	"strings"
)

// Writable adds a parameter to those of a query, so that pgx uses the host that accepts writes
// if there are several, unless the query selects one: a standby grants no claims. base is the URL
// before its query.
func Writable(base string, kept []string) []string {
	_, hosts, _ := strings.Cut(base, "://")
	hosts, _, _ = strings.Cut(hosts, "/")
	hosts = hosts[strings.LastIndex(hosts, "@")+1:]
	for _, param := range kept {
		switch key, value, _ := strings.Cut(param, "="); key {
		case "target_session_attrs":
			return kept
		case "host": // pgx uses it instead
			hosts, _ = url.QueryUnescape(value)
		}
	}
	if strings.Contains(hosts, ",") {
		kept = append(kept, "target_session_attrs=read-write")
	}
	return kept
}
