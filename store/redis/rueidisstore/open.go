package rueidisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/distlock/distlock/internal/protocol"
	"github.com/distlock/distlock/internal/typo"
	"github.com/distlock/distlock/store/redis"
)

// ErrURL says that a URL is malformed, or that the server speaks a protocol other than the URL
// names.
var ErrURL = errors.New("redis: bad URL")

// A urlError is an ErrURL with a text of its own.
type urlError struct{ error }

func (urlError) Is(target error) bool { return target == ErrURL }

func (e urlError) Unwrap() error { return e.error }

// Open returns a store on the server that a URL names. Closing the store closes its connections.
//
// A single server that does not answer is no error: the store is unavailable until the server
// answers. A server that refuses the user is an error, and so is a Sentinel or a cluster that does
// not answer. A server that speaks another protocol, or TLS where the URL has none, is an [ErrURL].
//
//	redis://user:password@host:6379/0                      one server; rediss:// with TLS
//	valkey://user:password@host:6379/0                     the same; valkeys:// with TLS
//	redis+unix:///run/redis.sock?db=0                      one server by its socket
//	redis+sentinel://h1:26379,h2/0?master_name=mymaster    rediss+sentinel:// with TLS
//	redis+cluster://h1:7000,h2:7001                        rediss+cluster:// with TLS
//
// The query may have lock_prefix (Options.Prefix), lock_replicas (Options.Replicas),
// lock_replica_timeout (Options.ReplicaTimeout, such as 200ms), tls_ca, tls_cert, tls_key
// (files), tls_server_name, tls_skip_verify (true or false), and for Sentinel sentinel_user and
// sentinel_password. Errors show no passwords. Errors about the URL and the files that it names are
// [ErrURL].
func Open(ctx context.Context, text string) (*redis.Store, error) {
	opt, own, err := parse(text)
	if err != nil {
		return nil, urlError{err}
	}
	want := protocol.Redis
	if opt.TLSConfig != nil {
		want = protocol.RedisTLS
	}
	addrs := opt.InitAddress
	if opt.DialCtxFn != nil { // a Unix socket
		addrs = nil
	}
	var m made
	err = protocol.Connect(ctx, want, addrs, func(ctx context.Context) error {
		m = connect(ctx, opt)
		return m.err
	})
	var other *protocol.Error
	_, answered := rueidis.IsRedisErr(m.err)
	switch {
	case errors.As(err, &other):
		m.close()
		return nil, urlError{fmt.Errorf("redis: %w", other)}
	case ctx.Err() != nil:
		m.close()
		return nil, ctx.Err()
	case m.err != nil && (answered || m.c == nil):
		m.close()
		return nil, fmt.Errorf("redis: cannot connect: %w", wrap(m.err))
	}
	c := newClient(m.c)
	c.closes = true
	s, err := redis.New(c, own)
	if err != nil {
		m.close()
		return nil, urlError{err}
	}
	return s, nil
}

// A made is a client, the reason why it has no connection, or both.
type made struct {
	c   rueidis.Client
	err error
}

func (m made) close() {
	if m.c != nil {
		m.c.Close()
	}
}

// connect makes a client. rueidis does not observe ctx while it connects: connect closes a client
// that is made after the end of ctx.
func connect(ctx context.Context, opt rueidis.ClientOption) made {
	done := make(chan made, 1)
	go func() {
		c, err := rueidis.NewClient(opt)
		done <- made{c, err}
	}()
	select {
	case m := <-done:
		return m
	case <-ctx.Done():
		go func() { (<-done).close() }()
		return made{nil, ctx.Err()}
	}
}

// queryKeys returns the keys that the query of a URL may have.
func queryKeys(kind string) []string {
	keys := []string{"lock_prefix", "lock_replicas", "lock_replica_timeout", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_skip_verify"}
	switch kind {
	case "unix":
		return append(keys, "db")
	case "sentinel":
		return append(keys, "master_name", "sentinel_user", "sentinel_password")
	}
	return keys
}

// parse reads a URL. Its errors never contain the password.
func parse(text string) (opt rueidis.ClientOption, own *redis.Options, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return opt, nil, errors.New("redis: a URL begins with redis://, rediss://, redis+unix://, " +
			"redis+sentinel:// or redis+cluster://")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	secure := base == "rediss" || base == "valkeys"
	if !slices.Contains([]string{"redis", "rediss", "valkey", "valkeys"}, base) || !slices.Contains([]string{"", "unix", "sentinel", "cluster"}, kind) ||
		kind == "unix" && secure || scheme != base && kind == "" {
		return opt, nil, fmt.Errorf("redis: %q is no scheme for Redis", scheme)
	}
	// net/url refuses lists of hosts with ports, and its errors contain the whole URL. So parse
	// gives it one host, and hides its errors.
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	hosts := authority[at+1:]
	u, err := url.Parse("x://" + authority[:at+1] + "host/" + path)
	if err != nil {
		return opt, nil, errors.New("redis: the user, the password or the path of the URL is not well written; " +
			"write @ : / % in them as %40 %3A %2F %25")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return opt, nil, errors.New("redis: the query of the URL is not well written")
	}
	if err := check(values, queryKeys(kind)); err != nil {
		return opt, nil, err
	}
	opt = rueidis.ClientOption{DisableCache: true, DisableRetry: true, ForceSingleClient: kind == "" || kind == "unix"}
	opt.Username = u.User.Username()
	opt.Password, _ = u.User.Password()
	if err := address(&opt, kind, hosts, u.Path, values); err != nil {
		return opt, nil, err
	}
	if kind == "sentinel" {
		opt.Sentinel = rueidis.SentinelOption{
			MasterSet: values.Get("master_name"), Username: values.Get("sentinel_user"), Password: values.Get("sentinel_password"),
		}
		if opt.Sentinel.MasterSet == "" {
			return opt, nil, errors.New("redis: a URL for Sentinel needs master_name")
		}
	}
	if opt.TLSConfig, err = security(secure, values); err != nil {
		return opt, nil, err
	}
	opt.Sentinel.TLSConfig = opt.TLSConfig
	own, err = options(values)
	return opt, own, err
}

// options reads the options of the store.
func options(values url.Values) (own *redis.Options, err error) {
	own = &redis.Options{Prefix: values.Get("lock_prefix")}
	if own.Prefix == "" && values.Has("lock_prefix") {
		return nil, errors.New("redis: lock_prefix is empty: leave it out for the prefix \"lock:\"")
	}
	if n := values.Get("lock_replicas"); n != "" {
		if own.Replicas, err = strconv.Atoi(n); err != nil || own.Replicas < 0 {
			return nil, fmt.Errorf("redis: lock_replicas is %.64q, want a number from 0", n)
		}
	}
	if d := values.Get("lock_replica_timeout"); d != "" {
		own.ReplicaTimeout, err = time.ParseDuration(d)
		switch {
		case err != nil || own.ReplicaTimeout < time.Millisecond:
			return nil, fmt.Errorf("redis: lock_replica_timeout is %.64q, want a duration from 1ms", d)
		case own.Replicas == 0:
			return nil, errors.New("redis: lock_replica_timeout without lock_replicas: no replica is waited for")
		}
	}
	return own, nil
}

// check refuses unknown keys, and suggests a known key that is similar.
func check(values url.Values, known []string) error {
	for key, all := range values {
		if len(all) > 1 {
			return fmt.Errorf("redis: %.64q is twice in the URL", key)
		}
		if slices.Contains(known, key) {
			continue
		}
		if best, ok := typo.Of(key, known, 3); ok {
			return fmt.Errorf("redis: unknown option %.64q in the URL: did you mean %s?", key, best)
		}
		return fmt.Errorf("redis: unknown option %.64q in the URL: the options are %s; "+
			"the command and package open also take lock_ttl and lock_poll", key, strings.Join(known, ", "))
	}
	return nil
}

// address reads the address of the server and the number of the database.
func address(opt *rueidis.ClientOption, kind, hosts, path string, values url.Values) error {
	db := strings.TrimPrefix(path, "/")
	if kind == "unix" {
		if hosts != "" || path == "" || path == "/" {
			return errors.New("redis: a URL for a socket is redis+unix:///path")
		}
		opt.InitAddress, db = []string{path}, values.Get("db")
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", addr)
		}
	} else {
		port := "6379"
		if kind == "sentinel" {
			port = "26379"
		}
		list := strings.Split(hosts, ",")
		if kind == "" && len(list) > 1 {
			return errors.New("redis: one server has one address; for several use redis+sentinel://, redis+cluster:// or redlock://")
		}
		for _, host := range list {
			addr, err := hostPort(host, port)
			if err != nil {
				return err
			}
			opt.InitAddress = append(opt.InitAddress, addr)
		}
	}
	if db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return fmt.Errorf("redis: the database is %.64q, want a number from 0", db)
	}
	if kind == "cluster" && n > 0 {
		return errors.New("redis: a cluster has only the database 0")
	}
	opt.SelectDB = n
	return nil
}

// hostPort returns host with the default port if it has none.
func hostPort(host, port string) (string, error) {
	h, p, err := net.SplitHostPort(host)
	if err != nil {
		h, p = strings.Trim(host, "[]"), port
	}
	n, err := strconv.Atoi(p)
	if h == "" || err != nil || n < 1 || n > 65535 || strings.Contains(h, ":") && !strings.Contains(host, "[") {
		return "", fmt.Errorf("redis: %.64q is not host or host:port", host)
	}
	return net.JoinHostPort(h, p), nil
}

// security returns the TLS configuration, or nil without TLS.
func security(secure bool, values url.Values) (*tls.Config, error) {
	if !secure {
		for key := range values {
			if strings.HasPrefix(key, "tls_") {
				return nil, fmt.Errorf("redis: %s without TLS: use rediss:// or rediss+...://", key)
			}
		}
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: values.Get("tls_server_name")}
	switch v := values.Get("tls_skip_verify"); v {
	case "", "false":
	case "true":
		conf.InsecureSkipVerify = true // the URL requests it by name
	default:
		return nil, fmt.Errorf("redis: tls_skip_verify is %.64q, want true or false", v)
	}
	if file := values.Get("tls_ca"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("redis: tls_ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis: tls_ca: %s has no certificate", file)
		}
	}
	cert, key := values.Get("tls_cert"), values.Get("tls_key")
	if (cert == "") != (key == "") {
		return nil, errors.New("redis: tls_cert and tls_key go together")
	}
	if cert != "" {
		// GetClientCertificate reads the files for every connection: a new certificate needs no
		// restart.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		}
		if _, err := conf.GetClientCertificate(nil); err != nil {
			return nil, fmt.Errorf("redis: tls_cert and tls_key: %w", err)
		}
	}
	return conf, nil
}
