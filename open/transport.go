package open

import (
	"net"
	"net/url"
	"strings"

	"github.com/distlock/distlock/driver"
)

// split returns the scheme, the user with its @, the hosts and the parameters of a URL.
func split(text string) (scheme, user, hosts string, query url.Values) {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, parameters, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	query, _ = url.ParseQuery(parameters)
	at := strings.LastIndex(authority, "@") + 1
	return scheme, authority[:at], authority[at:], query
}

// redisTransport returns the findings about the connection that a URL for Redis shows. The URL is
// valid.
func redisTransport(text string) []driver.Finding {
	scheme, user, hosts, query := split(text)
	_, password, _ := strings.Cut(user, ":")
	base, kind, _ := strings.Cut(scheme, "+")
	if kind == "unix" {
		return []driver.Finding{bySocket}
	}
	secure := base == "rediss" || base == "valkeys"
	all := []driver.Finding{privacy(hosts, secure, query.Get("tls_skip_verify") == "true", "rediss:// in place of redis://")}
	if strings.TrimSuffix(password, "@") == "" && query.Get("tls_cert") == "" {
		all = append(all, driver.Finding{
			Level: driver.LevelWarning, What: "the URL has no password: if the server accepts it, it accepts every client that reaches it",
			Means: "a client that can connect can end every claim", Cure: "set a password or users on the server, and put one in the URL",
		})
	}
	return all
}

var bySocket = driver.Finding{Level: driver.LevelOK, What: "traffic stays on this host (a socket)"}

// remoteTransport returns the findings about the connection to a lock server. The URL is valid.
func remoteTransport(text string) []driver.Finding {
	scheme, rest, _ := strings.Cut(text, ":")
	if scheme == "unix" {
		return []driver.Finding{bySocket}
	}
	hosts, _, _ := strings.Cut(rest, "?")
	return []driver.Finding{privacy(strings.Trim(hosts, "/"), scheme == "https", false, "https:// in place of http://")}
}

// privacy reports whether others can read the traffic, or pose as the store. The last
// argument says how to turn TLS on.
func privacy(hosts string, secure, unchecked bool, tls string) driver.Finding {
	switch {
	case secure && unchecked:
		return driver.Finding{
			Level: driver.LevelWarning, What: "the certificate of the server is not checked (tls_skip_verify)",
			Means: "another server can pose as the store, learn the password and grant claims that are held",
			Cure:  "name the authority with tls_ca instead",
		}
	case secure:
		return driver.Finding{Level: driver.LevelOK, What: "traffic is encrypted, and the server shows a certificate (TLS)"}
	case onThisHost(hosts):
		return driver.Finding{Level: driver.LevelOK, What: "traffic stays on this host"}
	}
	return driver.Finding{
		Level: driver.LevelWarning, What: "traffic is not encrypted",
		Means: "others on the network can read the password and the owners of claims, and end the claims",
		Cure:  "use TLS (" + tls + ")",
	}
}

// onThisHost reports whether all hosts of a list are certainly this host. A name other than
// localhost may be any host.
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
