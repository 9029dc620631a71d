package mysql

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	client "github.com/go-sql-driver/mysql"

	"github.com/distlock/distlock/internal/protocol"
)

// ErrURL reports that a URL is invalid.
var ErrURL = errors.New("mysql: bad URL")

// Open returns a store in the database that a URL names. Closing the store closes its connections.
//
//	mysql://user:password@host:3306/database
//
// The scheme mariadb:// is the same. A server that does not answer is not an error: the store is
// unavailable until the server answers. Open fails if the server refuses the user, if there is no
// such database, or if the tables cannot be used. Missing tables are created, if the user may.
//
// The query may have lock_migrate (false: [Options.Manual]), lock_conns ([Options.MaxConns]),
// socket (the path of a socket, in place of a host), tls (true, false or preferred, the default),
// tls_ca, tls_cert, tls_key (files), tls_server_name and tls_skip_verify (true or false). Errors
// show no password. Errors about the URL match [ErrURL].
func Open(ctx context.Context, text string) (*Store, error) {
	conf, opt, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	s, err := New(conf, opt)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if err := s.firstConnect(ctx, conf); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// firstConnect connects to the server for the first time. It returns nil if the server cannot be
// reached.
func (s *Store) firstConnect(ctx context.Context, conf *client.Config) error {
	c, err := s.connect(ctx, conf)
	if err == nil {
		defer func() { _ = c.Close() }()
		if s.opt.Manual { // the caller may be about to migrate
			return nil
		}
		_, err = s.prepare(ctx, c)
	}
	var schema *SchemaError
	var other *protocol.Error
	switch code(err) {
	case noRights, 1045, 1698, noDatabase, 1142, 1227:
		return connecting(ctx, err) // waiting does not help: user, database or permissions are wrong
	}
	switch {
	case err == nil, ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &other):
		return fmt.Errorf("%w: %w", ErrURL, other)
	case errors.As(err, &schema), errors.Is(err, errors.ErrUnsupported):
		return err
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.Is(err, client.ErrNoTLS):
		return connecting(ctx, err)
	}
	return nil
}

// connect returns a connection. It notices a server that speaks another protocol, which would
// otherwise be silent until ctx ends.
func (s *Store) connect(ctx context.Context, conf *client.Config) (c *sql.Conn, err error) {
	var addrs []string
	if conf.Net == "tcp" {
		addrs = []string{conf.Addr}
	}
	other := protocol.Connect(ctx, protocol.MySQL, addrs, func(ctx context.Context) error {
		if c, err = s.claims.Conn(ctx); code(err) != 0 {
			return nil // it speaks MySQL, and counts probes as failed connections
		}
		return err
	})
	return c, cmp.Or(other, err)
}

// parse reads a URL. Its errors never contain the password.
func parse(text string) (*client.Config, *Options, error) {
	base, query, _ := strings.Cut(text, "?")
	_, rest, ok := strings.Cut(base, "://")
	if !ok || !strings.HasPrefix(base, "mysql://") && !strings.HasPrefix(base, "mariadb://") {
		return nil, nil, errors.New("it begins with mysql:// or mariadb://")
	}
	conf, opt := client.NewConfig(), &Options{}
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	user, password, _ := strings.Cut(strings.TrimSuffix(authority[:at+1], "@"), ":")
	var errs [3]error
	conf.User, errs[0] = url.PathUnescape(user)
	conf.Passwd, errs[1] = url.PathUnescape(password)
	conf.DBName, errs[2] = url.PathUnescape(path)
	if errors.Join(errs[:]...) != nil {
		return nil, nil, errors.New("write % as %25 in user, password and database")
	}
	switch {
	case conf.User == "":
		return nil, nil, errors.New("it needs a user: mysql://user@host/database")
	case conf.DBName == "" || strings.Contains(conf.DBName, "/"):
		return nil, nil, errors.New("it needs a database: mysql://user@host/database")
	}
	secure := &security{mode: "preferred"}
	socket, err := parseQuery(query, opt, secure)
	if err != nil {
		return nil, nil, err
	}
	if err := address(conf, authority[at+1:], socket); err != nil {
		return nil, nil, err
	}
	return conf, opt, secure.apply(conf)
}

// address sets the address of the server.
func address(conf *client.Config, host, socket string) error {
	if socket != "" {
		if host != "" {
			return errors.New("it has a host and a socket: give one of them")
		}
		conf.Net, conf.Addr = "unix", socket
		return nil
	}
	name, port := host, "3306"
	if strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") {
		var err error
		if name, port, err = net.SplitHostPort(host); err != nil {
			return errors.New("its host is not well written")
		}
	}
	name = strings.Trim(name, "[]")
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("the port %.16q is not 1 to 65535", port)
	}
	if name == "" || strings.Contains(name, ",") {
		return errors.New("it needs one host, or the key socket")
	}
	conf.Net, conf.Addr = "tcp", net.JoinHostPort(name, port)
	return nil
}

// parseQuery reads the keys of a query.
func parseQuery(query string, opt *Options, secure *security) (socket string, err error) {
	seen := map[string]bool{}
	for param := range strings.SplitSeq(query, "&") {
		key, raw, _ := strings.Cut(param, "=")
		if param == "" {
			continue
		}
		if seen[key] {
			return "", fmt.Errorf("%.64q is in it twice", key)
		}
		seen[key] = true
		value, err := url.QueryUnescape(raw)
		if err != nil {
			return "", fmt.Errorf("%.64q is not well written", key)
		}
		switch key {
		case "socket":
			socket = value
		case "lock_migrate":
			if value != "true" && value != "false" {
				return "", fmt.Errorf("lock_migrate is %.64q, want true or false", value)
			}
			opt.Manual = value == "false"
		case "lock_conns":
			if opt.MaxConns, err = strconv.Atoi(value); err != nil || opt.MaxConns < 1 {
				return "", fmt.Errorf("lock_conns is %.64q, want a number from 1", value)
			}
		default:
			if err := secure.set(key, value); err != nil {
				return "", err
			}
		}
	}
	return socket, nil
}

// security holds the keys tls and tls_... of a URL.
type security struct {
	mode, ca, cert, key, server string
	skip, given                 bool
}

func (s *security) set(key, value string) error {
	switch key {
	case "tls":
		if value != "true" && value != "false" && value != "preferred" {
			return fmt.Errorf("tls is %.64q, want true, false or preferred", value)
		}
		s.mode = value
		return nil
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
			return fmt.Errorf("tls_skip_verify is %.64q, want true or false", value)
		}
		s.skip = value == "true"
	default:
		return fmt.Errorf("%.64q is not known: there are lock_migrate, lock_conns, socket, tls, tls_ca, tls_cert, tls_key, tls_server_name and tls_skip_verify", key)
	}
	s.given = true
	return nil
}

// apply sets the configuration of TLS. A key tls_... implies tls=true.
func (s *security) apply(conf *client.Config) error {
	switch {
	case s.given && s.mode == "false":
		return errors.New("it has tls=false, and a key that begins with tls_")
	case (s.cert == "") != (s.key == ""):
		return errors.New("tls_cert and tls_key go together")
	case !s.given:
		conf.TLSConfig = s.mode
		return nil
	}
	t := &tls.Config{ServerName: s.server, InsecureSkipVerify: s.skip, MinVersion: tls.VersionTLS12}
	if s.server == "" && conf.Net == "tcp" {
		t.ServerName, _, _ = net.SplitHostPort(conf.Addr)
	}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return fmt.Errorf("tls_ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls_ca: no certificate in %.128q", s.ca)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return fmt.Errorf("tls_cert: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	conf.TLS = t
	return nil
}
