package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/typo"
)

// ErrURL means that a URL, or a file that it names, is wrong. No server was called.
var ErrURL = errors.New("etcd: bad URL")

const (
	defaultPort = "2379"

	// dialLimit bounds the first call of a user with a password.
	dialLimit = 5 * time.Second

	// A connection that is silent for pingAfter is tested, and closed if pingLimit passes without
	// an answer. A server closes connections that are tested more often than every 5 s.
	pingAfter, pingLimit = 10 * time.Second, 3 * time.Second
)

// Open returns a store on the cluster that a URL names. Closing the store closes its connections.
//
//	etcd://user:password@h1:2379,h2,h3/prefix     etcds:// with TLS
//
// The port 2379 and the prefix "distlock" may be left out. The query may have lock_min_ttl
// ([Options].MinTTL, such as 3s), tls_ca, tls_cert, tls_key (files), tls_server_name and
// tls_skip_verify (true or false). A cluster that does not answer is no error, unless the URL has a
// password: the store is unavailable until it answers. A cluster that refuses the user is an error.
// Errors show no password. Errors about the URL and the files that it names are [ErrURL].
func Open(ctx context.Context, text string) (*Store, error) {
	conf, opt, err := parse(text)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, err := dial(ctx, conf)
	if err != nil {
		return nil, err
	}
	s, err := New(client, opt)
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	s.closer = func() { client.Close() }
	return s, nil
}

// dial makes a client. The client library observes its own limit and not ctx.
func dial(ctx context.Context, conf clientv3.Config) (*clientv3.Client, error) {
	type made struct {
		client *clientv3.Client
		err    error
	}
	done := make(chan made, 1)
	go func() {
		c, err := clientv3.New(conf)
		done <- made{c, err}
	}()
	select {
	case m := <-done:
		if m.err != nil {
			return nil, fmt.Errorf("%w: cannot connect: %w", driver.ErrUnavailable, outcome(ctx, m.err, true))
		}
		return m.client, nil
	case <-ctx.Done():
		go func() {
			if m := <-done; m.client != nil {
				m.client.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

var urlKeys = []string{"lock_min_ttl", "tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_skip_verify"}

// parse reads a URL. Its errors never contain the password.
func parse(text string) (conf clientv3.Config, opt *Options, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "etcd" && scheme != "etcds" {
		return conf, nil, fmt.Errorf("%w: it begins with etcd:// or etcds://", ErrURL)
	}
	// net/url refuses lists of hosts with ports, and its errors contain the whole URL.
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	u, err := url.Parse("x://" + authority[:at+1] + "host/" + path)
	// An @ after the hosts is that of a password with a slash or a question mark.
	if err != nil || u.Fragment != "" || strings.Contains(path, "@") || at < 0 && strings.Contains(query, "@") {
		return conf, nil, fmt.Errorf("%w: the user, the password, the prefix or the query is malformed; "+
			"write @ : / ? %% # in them as %%40 %%3A %%2F %%3F %%25 %%23", ErrURL)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return conf, nil, fmt.Errorf("%w: its query is malformed", ErrURL)
	}
	if err := checkKeys(values); err != nil {
		return conf, nil, err
	}
	conf = clientv3.Config{
		Logger:      zap.NewNop(), // no address, and nothing of a URL, gets into a log
		DialTimeout: dialLimit, DialKeepAliveTime: pingAfter, DialKeepAliveTimeout: pingLimit,
	}
	conf.Username = u.User.Username()
	conf.Password, _ = u.User.Password()
	if conf.TLS, err = security(scheme == "etcds", values); err != nil {
		return conf, nil, err
	}
	if conf.Endpoints, err = endpoints(authority[at+1:], conf.TLS != nil); err != nil {
		return conf, nil, err
	}
	opt = &Options{Prefix: strings.Trim(u.Path, "/")}
	if v := values.Get("lock_min_ttl"); v != "" {
		if opt.MinTTL, err = time.ParseDuration(v); err != nil || opt.MinTTL < time.Second || opt.MinTTL%time.Second != 0 {
			return conf, nil, fmt.Errorf("%w: lock_min_ttl is %.64q, want whole seconds such as 3s", ErrURL, v)
		}
	}
	return conf, opt, nil
}

// checkKeys refuses unknown keys, and suggests a known key that is similar.
func checkKeys(values url.Values) error {
	for key, all := range values {
		if len(all) > 1 {
			return fmt.Errorf("%w: %.64q is in it twice", ErrURL, key)
		}
		if slices.Contains(urlKeys, key) {
			continue
		}
		if best, ok := typo.Of(key, urlKeys, 3); ok {
			return fmt.Errorf("%w: unknown option %.64q: did you mean %s?", ErrURL, key, best)
		}
		return fmt.Errorf("%w: unknown option %.64q: the options are %s; "+
			"the command and package open also take lock_ttl and lock_poll", ErrURL, key, strings.Join(urlKeys, ", "))
	}
	return nil
}

// endpoints returns the addresses of the members.
func endpoints(hosts string, secure bool) (all []string, err error) {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		h, p, err := net.SplitHostPort(host)
		if err != nil {
			h, p = strings.Trim(host, "[]"), defaultPort
		}
		n, err := strconv.Atoi(p)
		if h == "" || err != nil || n < 1 || n > 65535 || strings.Contains(h, ":") && !strings.Contains(host, "[") {
			return nil, fmt.Errorf("%w: %.64q is not host or host:port", ErrURL, host)
		}
		all = append(all, scheme+net.JoinHostPort(h, p))
	}
	return all, nil
}

// security returns the TLS configuration, or nil without TLS. Certificates are read again for every
// connection, so a new one needs no restart.
func security(secure bool, values url.Values) (*tls.Config, error) {
	if !secure {
		for key := range values {
			if strings.HasPrefix(key, "tls_") {
				return nil, fmt.Errorf("%w: %s without TLS: use etcds://", ErrURL, key)
			}
		}
		return nil, nil
	}
	info := transport.TLSInfo{
		TrustedCAFile: values.Get("tls_ca"), CertFile: values.Get("tls_cert"), KeyFile: values.Get("tls_key"),
		ServerName: values.Get("tls_server_name"), Logger: zap.NewNop(),
	}
	if (info.CertFile == "") != (info.KeyFile == "") {
		return nil, fmt.Errorf("%w: tls_cert and tls_key go together", ErrURL)
	}
	switch v := values.Get("tls_skip_verify"); v {
	case "", "false":
	case "true":
		info.InsecureSkipVerify = true // the URL requests it by name
	default:
		return nil, fmt.Errorf("%w: tls_skip_verify is %.64q, want true or false", ErrURL, v)
	}
	conf, err := info.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: tls_ca, tls_cert or tls_key: %w", ErrURL, err)
	}
	conf.MinVersion = tls.VersionTLS12
	return conf, nil
}
