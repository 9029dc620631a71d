package open

import (
	"context"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mysql"
)

func openMySQL(ctx context.Context, text string) (*Source, error) {
	s, err := mysql.Open(ctx, text)
	return sourceOf(text, s, err, mysql.ErrURL, mysqlTransport)
}

// mysqlTransport returns the findings about the connection that a URL for MariaDB shows. The URL is
// valid.
func mysqlTransport(text string) []driver.Finding {
	_, _, hosts, values := split(text)
	if values.Get("socket") != "" {
		return []driver.Finding{bySocket}
	}
	secure := values.Get("tls") == "true"
	for key := range values {
		secure = secure || strings.HasPrefix(key, "tls_")
	}
	return []driver.Finding{privacy(hosts, secure,
		values.Get("tls_skip_verify") == "true", "tls=true, and tls_ca for an authority of your own")}
}

// isMySQL reports whether a URL names a store in MariaDB or MySQL.
func isMySQL(scheme string) bool { return scheme == "mysql" || scheme == "mariadb" }
