// Package pgurl reads the common parts of the URLs of all stores on PostgreSQL.
package pgurl

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// security holds the keys tls_... of a URL. They are the same for all stores, and PostgreSQL has
// other names for them.
type security struct {
	ca, cert, key, server string
	skip, given           bool
}

// set reads a key, and reports whether it is one of them.
func (s *security) set(key, value string) (known bool, err error) {
	switch key {
	case "tls_ca":
		s.ca = value
	case "tls_cert":
		s.cert = value
	case "tls_key":
		s.key = value
	case "tls_server_name":
		s.server = value
	case "tls_skip_verify":
		if value != "true" && value != "false" {
			return true, fmt.Errorf("tls_skip_verify is %.64q, want true or false", value)
		}
		s.skip = value == "true"
	default:
		if strings.HasPrefix(key, "tls_") {
			return true, fmt.Errorf("%.64q is not known: there are tls_ca, tls_cert, tls_key, tls_server_name and tls_skip_verify", key)
		}
		return false, nil
	}
	s.given = true
	return true, nil
}

// params adds the keys to the parameters of a query, with PostgreSQL's names. seen are the keys of
// the query.
func (s *security) params(kept, seen []string) ([]string, error) {
	if !s.given {
		return kept, nil
	}
	for _, key := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
		if slices.Contains(seen, key) {
			return nil, fmt.Errorf("%s and tls_... say the same: give one of them", key)
		}
	}
	if (s.cert == "") != (s.key == "") {
		return nil, errors.New("tls_cert and tls_key go together")
	}
	mode := "verify-full"
	if s.skip {
		mode = "require"
	}
	kept = append(kept, "sslmode="+mode)
	names := map[string]string{"sslrootcert": s.ca, "sslcert": s.cert, "sslkey": s.key}
	for name, value := range names {
		if value != "" && (name != "sslrootcert" || !s.skip) { // with an authority, "require" would check it
			kept = append(kept, name+"="+url.QueryEscape(value))
		}
	}
	return kept, nil
}

// Apply sets the values for which PostgreSQL has no name.
func (s *security) Apply(conf *pgconn.Config) {
	set := func(c *tls.Config) {
		if c != nil && s.server != "" {
			c.ServerName = s.server
		}
	}
	set(conf.TLSConfig)
	for _, f := range conf.Fallbacks {
		set(f.TLSConfig)
	}
}
