package open

import (
	"net"
	"net/url"
	"strings"

	"github.com/distlock/distlock/driver"
)

// wayToRedis is what a URL for Redis tells about the way there. The URL has been read before: it is well written.
func wayToRedis(text string) []driver.Finding {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	_, password, _ := strings.Cut(authority[:at+1], ":")
	values, _ := url.ParseQuery(query)

	base, kind, _ := strings.Cut(scheme, "+")
	if kind == "unix" {
		return []driver.Finding{{Level: driver.OK, What: "what is sent stays on this host (a socket)"}}
	}
	secure := base == "rediss" || base == "valkeys"
	all := []driver.Finding{privacy(authority[at+1:], secure, values.Get("tls_skip_verify") == "true")}
	if strings.TrimSuffix(password, "@") == "" && values.Get("tls_cert") == "" {
		all = append(all, driver.Finding{
			Level: driver.Warning, What: "the URL has no password: if the server lets us in, it lets in everybody who reaches it",
			Means: "whoever can connect to it can end every claim", Cure: "give the server a password or users, and the URL one of them",
		})
	}
	return all
}

// privacy finds out whether others can read along, or answer instead of the store.
func privacy(hosts string, secure, unchecked bool) driver.Finding {
	switch {
	case secure && unchecked:
		return driver.Finding{
			Level: driver.Warning, What: "the certificate of the server is not checked (tls_skip_verify)",
			Means: "another can pose as the store, learn the password and grant what is held", Cure: "name the authority with tls_ca instead",
		}
	case secure:
		return driver.Finding{Level: driver.OK, What: "what is sent is encrypted, and the server shows a certificate (TLS)"}
	case onThisHost(hosts):
		return driver.Finding{Level: driver.OK, What: "what is sent stays on this host"}
	}
	return driver.Finding{
		Level: driver.Warning, What: "what is sent is not encrypted",
		Means: "others on the network can read the password and the owners of claims, and end them", Cure: "use TLS (rediss:// in place of redis://)",
	}
}

// onThisHost reports whether all hosts of a list are this one, for sure. A name may lead anywhere but for localhost.
func onThisHost(list string) bool {
	for host := range strings.SplitSeq(list, ",") {
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			name = strings.Trim(host, "[]")
		}
		if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
