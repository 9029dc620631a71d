package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// ErrURL means that a URL is malformed. No server was called.
var ErrURL = errors.New("remote: bad URL")

// A target is the content of a URL.
type target struct {
	scheme  string // "http" or "https"
	network string // "tcp" or "unix"
	addrs   []string
	id      string // store_id
	plain   bool   // token_without_tls
	tls     *tls.Config
}

// parse reads a URL: see the package comment.
func parse(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || scheme != "http" && scheme != "https" && scheme != "unix" {
		return nil, fmt.Errorf("%w: want http://HOST:PORT, https://HOST:PORT or unix:/PATH", ErrURL)
	}
	base, query, _ := strings.Cut(rest, "?")
	if strings.Contains(base, "#") {
		return nil, fmt.Errorf("%w: it has a fragment", ErrURL)
	}
	t := &target{scheme: scheme, network: "tcp", tls: &tls.Config{MinVersion: minTLS}}
	if err := t.options(query); err != nil {
		return nil, err
	}
	if scheme == "unix" {
		return t, t.socket(base)
	}
	return t, t.hosts(base)
}

// socket reads the path of a socket.
func (t *target) socket(base string) error {
	path, err := url.PathUnescape(base)
	path = strings.TrimPrefix(path, "//") // an empty host
	if err != nil || !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%w: unix: is followed by the path of a socket, from the root", ErrURL)
	}
	t.scheme, t.network, t.addrs = "http", "unix", []string{path}
	return nil
}

// hosts reads a list of hosts.
func (t *target) hosts(base string) error {
	list, ok := strings.CutPrefix(base, "//")
	list = strings.TrimSuffix(list, "/")
	switch {
	case !ok || list == "":
		return fmt.Errorf("%w: it names no host", ErrURL)
	case strings.Contains(list, "://"):
		return fmt.Errorf("%w: write the scheme once: %s://h1:7520,h2:7520", ErrURL, t.scheme)
	case strings.Contains(list, "@"):
		return fmt.Errorf("%w: it has a user or a password, which a lock server does not take from a URL", ErrURL)
	case strings.Contains(list, "/"):
		return fmt.Errorf("%w: it has a path: a lock server is a host and a port", ErrURL)
	}
	for host := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse(t.scheme + "://" + host); err != nil || u.Hostname() == "" || u.Host != host {
			return fmt.Errorf("%w: %.64q is no host and port", ErrURL, host)
		}
		t.addrs = append(t.addrs, host)
	}
	return nil
}

// options reads the query.
func (t *target) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("%w: its query is malformed", ErrURL)
	}
	if err := t.certificate(values); err != nil {
		return err
	}
	for key, all := range values {
		switch {
		case len(all) != 1:
			return fmt.Errorf("%w: %.64s is in it twice", ErrURL, key)
		case key == "store_id" && all[0] != "":
			t.id = all[0]
		case key == "token_without_tls" && all[0] == "true" && t.scheme == "http":
			t.plain = true
		case key == "token_without_tls":
			return fmt.Errorf("%w: token_without_tls=true is for http://", ErrURL)
		case key == "tls_ca" && t.scheme == "https":
			pem, err := os.ReadFile(all[0])
			if err != nil {
				return fmt.Errorf("%w: tls_ca: %w", ErrURL, err)
			}
			t.tls.RootCAs = x509.NewCertPool()
			if !t.tls.RootCAs.AppendCertsFromPEM(pem) {
				return fmt.Errorf("%w: tls_ca: %s has no certificate", ErrURL, all[0])
			}
		case key == "tls_ca":
			return fmt.Errorf("%w: tls_ca is for https://", ErrURL)
		case key == "tls_cert", key == "tls_key":
		default:
			return fmt.Errorf("%w: unknown key %.64q: there are store_id, tls_ca, tls_cert, tls_key and token_without_tls; "+
				"the command and package open also take lock_ttl and lock_poll", ErrURL, key)
		}
	}
	return nil
}

// certificate reads the names of the files with the certificate of the client, and its key. They
// are read for each connection, so that a certificate that was renewed is used.
func (t *target) certificate(values url.Values) error {
	cert, key := values.Get("tls_cert"), values.Get("tls_key")
	switch {
	case cert == "" && key == "" && !values.Has("tls_cert") && !values.Has("tls_key"):
		return nil
	case cert == "" || key == "":
		return fmt.Errorf("%w: tls_cert and tls_key belong together", ErrURL)
	case t.scheme != "https":
		return fmt.Errorf("%w: tls_cert is for https://", ErrURL)
	}
	read := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}
	if _, err := read(nil); err != nil {
		return fmt.Errorf("%w: tls_cert: %w", ErrURL, err)
	}
	t.tls.GetClientCertificate = read
	return nil
}
