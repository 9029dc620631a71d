package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mysql"
)

func openMySQL(ctx context.Context, text string) (*Source, error) {
	s, err := mysql.Open(ctx, text)
	if err != nil {
		if errors.Is(err, mysql.ErrURL) {
			err = fmt.Errorf("%w: %w", ErrURL, err)
		}
		return nil, err
	}
	return &Source{Store: s, Findings: mysqlTransport(text), closes: []func(){func() { _ = s.Close() }}}, nil
}

// mysqlTransport returns the findings about the connection that a URL for MariaDB shows. The URL is
// valid.
func mysqlTransport(text string) []driver.Finding {
	_, rest, _ := strings.Cut(text, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	values, _ := url.ParseQuery(query)
	if values.Get("socket") != "" {
		return []driver.Finding{bySocket}
	}
	secure := values.Get("tls") == "true"
	for key := range values {
		secure = secure || strings.HasPrefix(key, "tls_")
	}
	return []driver.Finding{privacy(authority[strings.LastIndex(authority, "@")+1:], secure,
		values.Get("tls_skip_verify") == "true", "tls=true, and tls_ca for an authority of your own")}
}

// isMySQL reports whether a URL names a store in MariaDB or MySQL.
func isMySQL(scheme string) bool { return scheme == "mysql" || scheme == "mariadb" }
