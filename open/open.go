// Package open opens a store, or a Locker on it, by its URL.
//
//	sqlite:                                            a file in the state folder of the user
//	sqlite:locks.db, sqlite:///var/lib/locks.db        the same, in a file by its path
//	memory:                                            the memory of this process
//	redis://user:password@host:6379/0                  one server; rediss:// with TLS
//	valkey://host:6379/0                               the same; valkeys:// with TLS
//	redis+unix:///run/redis.sock?db=0                  one server by its socket
//	redis+sentinel://h1:26379,h2/0?master_name=main    Sentinel; rediss+sentinel:// with TLS
//	redis+cluster://h1:7000,h2:7001                    a cluster; rediss+cluster:// with TLS
//	redlock://h1,h2,h3/0                               a majority of servers; redlocks:// with TLS
//	redlock:?node=redis://a:1&node=rediss://u:p@b:2/3  the same, each node with its own URL
//	postgres://user:password@host:5432/database        tables in PostgreSQL; hosts with commas
//	postgres://host/database?lock_mode=advisory        advisory locks of a PostgreSQL server
//	mysql://user:password@host:3306/database           tables in MariaDB; mariadb:// is the same
//	etcd://user:password@h1:2379,h2,h3/prefix          an etcd cluster; etcds:// with TLS
//	http://host:7520, http://h1:7520,h2:7520           lock servers on one store (distlock serve)
//	https://host:7520?tls_ca=ca.pem                    the same with TLS
//	unix:/run/distlock.sock                            a lock server on this host, by its socket
//
// [Locker] is what most programs need. Every URL may have lock_ttl and lock_poll: see [Source]. A
// URL for Redlock may also have lock_longest_ttl, which must be the same for all programs, and
// lock_node_limit: see [quorum.Options]. The other keys are those of the store, or of each node:
// see [rueidisstore.Open], and Open of store/etcd. A key that no store knows is an error, and so is
// a key that is given twice. In passwords, write @ : / % as %40 %3A %2F %25.
//
// This is the only package that links all stores. A program that uses one store can import that
// store alone.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/typo"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/quorum"
	"github.com/distlock/distlock/store/redis/rueidisstore"
	"github.com/distlock/distlock/store/remote"
	"github.com/distlock/distlock/store/sqlite"
)

// ErrURL means that a URL is malformed, or that it names a store that is not known or must not be
// used in its current state. A later attempt with the same URL does not help.
var ErrURL = errors.New("open: bad store URL")

// maxURL is the longest URL, in bytes. It is far longer than any real URL, and keeps the content of
// a wrong file from being shown as a URL.
const maxURL = 16 << 10

// A Source is an open store, with the settings of its URL.
type Source struct {
	Store driver.Store

	TTL  time.Duration // lock_ttl: the default TTL of locks; 0: not set
	Poll time.Duration // lock_poll: the longest pause between two attempts; 0: not set

	// Findings are about the connection, as far as the URL alone shows it: whether others can read
	// the traffic, and whether the store requires a password. [driver.Inspect] returns the findings
	// of the store.
	Findings []driver.Finding

	closes []func() // called in this order
}

// Options returns the settings of the URL as options of a [Locker].
func (s *Source) Options() (opts []distlock.Option) {
	if s.TTL > 0 {
		opts = append(opts, distlock.TTL(s.TTL))
	}
	if s.Poll > 0 {
		opts = append(opts, distlock.Backoff(min(s.Poll, 20*time.Millisecond), s.Poll))
	}
	return opts
}

// Close closes the store and its connections. Claims that are still held stay until their TTL ends.
func (s *Source) Close() {
	for _, c := range s.closes {
		c()
	}
	s.closes = nil
}

// schemes returns the functions that open a store, by the part of the URL before the first colon. A
// function gets the URL without lock_ttl and lock_poll.
func schemes() map[string]func(ctx context.Context, text string) (*Source, error) {
	all := map[string]func(context.Context, string) (*Source, error){
		"sqlite": openSQLite, "memory": openMemory, "redlock": openRedlock, "redlocks": openRedlock,
		"postgres": openPostgres, "postgresql": openPostgres, "etcd": openEtcd, "etcds": openEtcd,
		"mysql": openMySQL, "mariadb": openMySQL,
		"http": openRemote, "https": openRemote, "unix": openRemote,
	}
	for _, s := range []string{
		"redis", "rediss", "valkey", "valkeys", "redis+unix", "valkey+unix",
		"redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel",
		"redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster",
	} {
		all[s] = openRedis
	}
	return all
}

// Open opens the store that a URL names. If a server does not answer, Open may succeed: the store
// is then unavailable until the server answers. A lock server must answer. An error that is
// [ErrURL] means that the URL is wrong, or that a server speaks another protocol than the URL
// names. No error shows a password.
func Open(ctx context.Context, text string) (*Source, error) {
	s, err := open(ctx, text)
	if err != nil {
		return nil, redacted(err, text)
	}
	return s, nil
}

// Locker opens the store that a URL names, see [Open], and returns a Locker that owns it: the
// settings of the URL are the defaults of the Locker, before the options, and
// [distlock.Locker.Close] closes the store too.
func Locker(ctx context.Context, text string, opts ...distlock.Option) (*distlock.Locker, error) {
	s, err := Open(ctx, text)
	if err != nil {
		return nil, err
	}
	l, err := distlock.New(s.Store, slices.Concat(s.Options(), opts, []distlock.Option{distlock.OnClose(s.Close)})...)
	if err != nil {
		s.Close()
		return nil, err
	}
	return l, nil
}

func open(ctx context.Context, text string) (*Source, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("%w: it has %d bytes, more than %d", ErrURL, len(text), maxURL)
	}
	scheme, _, ok := strings.Cut(text, ":")
	opener, known := schemes()[scheme]
	if !ok || !known {
		return nil, unknownScheme(text)
	}
	rest, ours, err := strip(text, "lock_ttl", "lock_poll")
	if err != nil {
		return nil, err
	}
	s, err := opener(ctx, rest)
	if err != nil {
		return nil, err
	}
	s.TTL, s.Poll = ours["lock_ttl"], ours["lock_poll"]
	return s, nil
}

// strip removes keys with durations from the query of a URL. The rest of the URL stays as it is.
func strip(text string, keys ...string) (rest string, ours map[string]time.Duration, err error) {
	base, query, has := strings.Cut(text, "?")
	if !has {
		return text, nil, nil
	}
	ours = map[string]time.Duration{}
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		if !slices.Contains(keys, key) {
			kept = append(kept, part)
			continue
		}
		if _, twice := ours[key]; twice {
			return "", nil, fmt.Errorf("%w: %s is in it twice", ErrURL, key)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return "", nil, fmt.Errorf("%w: %s is %.64q, want a duration such as 30s", ErrURL, key, value)
		}
		ours[key] = d
	}
	if len(kept) == 0 {
		return base, ours, nil
	}
	return base + "?" + strings.Join(kept, "&"), ours, nil
}

func openMemory(_ context.Context, text string) (*Source, error) {
	if text != "memory:" {
		return nil, fmt.Errorf("%w: memory: has no options but lock_ttl and lock_poll", ErrURL)
	}
	return &Source{Store: mem.New()}, nil
}

func openSQLite(ctx context.Context, text string) (*Source, error) {
	s, err := sqlite.OpenURL(ctx, text)
	switch {
	case errors.Is(err, sqlite.ErrURL):
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	case err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrUnavailable):
		return nil, &unusableError{err}
	case err != nil:
		return nil, err
	}
	return &Source{Store: s, closes: []func(){func() { _ = s.Close() }}}, nil //nolint:contextcheck // Close takes no ctx
}

// sourceOf returns the result of a store's own Open, whose errors about the URL are bad. findings
// are those about the connection.
func sourceOf[S interface {
	driver.Store
	Close() error
}](text string, s S, err, bad error, findings func(text string) []driver.Finding) (*Source, error) {
	switch {
	case errors.Is(err, bad):
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	case err != nil:
		return nil, err
	}
	return &Source{Store: s, Findings: findings(text), closes: []func(){func() { _ = s.Close() }}}, nil
}

func openRemote(ctx context.Context, text string) (*Source, error) {
	s, err := remote.Open(ctx, text, nil)
	return sourceOf(text, s, err, remote.ErrURL, remoteTransport)
}

// An unusableError means that a store must not be used in its current state, such as a file that
// others may write. It is ErrURL, but the URL may be correct, so the message does not mention the
// URL.
type unusableError struct{ error }

func (e *unusableError) Is(target error) bool { return target == ErrURL }

func (e *unusableError) Unwrap() error { return e.error }

func openRedis(ctx context.Context, text string) (*Source, error) {
	s, err := rueidisstore.Open(ctx, text)
	return sourceOf(text, s, err, rueidisstore.ErrURL, redisTransport)
}

// openRedlock opens all nodes at once, because a node that does not answer takes long.
func openRedlock(ctx context.Context, text string) (*Source, error) {
	text, ours, err := strip(text, "lock_longest_ttl", "lock_node_limit")
	if err != nil {
		return nil, err
	}
	urls, err := nodes(text)
	if err != nil {
		return nil, err
	}
	opened, errs, names := make([]*Source, len(urls)), make([]error, len(urls)), make([]string, len(urls))
	var wg sync.WaitGroup
	for i, u := range urls {
		names[i] = address(u)
		wg.Go(func() {
			if opened[i], errs[i] = openRedis(ctx, u); errs[i] != nil {
				errs[i] = redacted(errs[i], u)
			}
		})
	}
	wg.Wait()
	all := &Source{}
	var stores []driver.Store
	for i, s := range opened {
		if s != nil {
			stores = append(stores, s.Store)
			all.closes = append(all.closes, s.Close)
			for _, f := range s.Findings {
				f.What = "node " + names[i] + ": " + f.What
				all.Findings = append(all.Findings, f)
			}
		}
	}
	if err := joined(names, errs); err != nil {
		all.Close()
		return nil, err
	}
	q, err := quorum.New(ctx, stores, &quorum.Options{
		Name: "redlock", Nodes: names, LongestTTL: ours["lock_longest_ttl"], NodeLimit: ours["lock_node_limit"],
	})
	if err != nil {
		all.Close()
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	all.Store = q
	all.closes = slices.Insert(all.closes, 0, q.Close) // first: it calls nodes until it is closed
	return all, nil
}

// address returns the address of a node for messages: host:port or the path of a socket, without a
// password.
func address(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	host := authority[strings.LastIndex(authority, "@")+1:]
	switch {
	case host == "":
		return "/" + path
	case strings.Contains(host[strings.LastIndex(host, "]")+1:], ":"):
		return host
	}
	return host + ":6379"
}

// joined returns which nodes could not be opened. An error that all nodes share is an error of the
// URL, and is reported once.
func joined(names []string, errs []error) error {
	if !slices.ContainsFunc(errs, func(err error) bool { return err == nil || err.Error() != errs[0].Error() }) {
		return errs[0]
	}
	var named []error
	for i, err := range errs {
		if err != nil {
			named = append(named, fmt.Errorf("node %d, %s: %w", i+1, names[i], err))
		}
	}
	return errors.Join(named...)
}

// nodes returns the URLs of the nodes that a URL for Redlock names.
func nodes(text string) ([]string, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	base, query, _ := strings.Cut(rest, "?")
	list, ok := strings.CutPrefix(base, "//")
	if !ok {
		if base != "" {
			return nil, fmt.Errorf("%w: redlock is followed by :// and hosts, or by :?node= and URLs", ErrURL)
		}
		return nodeURLs(query)
	}
	authority, path, _ := strings.Cut(list, "/")
	at := strings.LastIndex(authority, "@")
	var urls []string
	for host := range strings.SplitSeq(authority[at+1:], ",") {
		u := "redis" + strings.TrimPrefix(scheme, "redlock") + "://" + authority[:at+1] + host + "/" + path
		if query != "" {
			u += "?" + query
		}
		urls = append(urls, u)
	}
	return urls, nil
}

// nodeURLs returns the URLs in a query of node= keys. The other keys apply to every node.
func nodeURLs(query string) ([]string, error) {
	var urls, others []string
	for part := range strings.SplitSeq(query, "&") {
		value, ok := strings.CutPrefix(part, "node=")
		if !ok {
			if part != "" {
				others = append(others, part)
			}
			continue
		}
		// The URL of a node must be escaped if it has a query. Otherwise it need not be escaped. A
		// plus is not a space here, but part of schemes.
		if !strings.Contains(value, "://") {
			plain, err := url.PathUnescape(value)
			if err != nil {
				return nil, fmt.Errorf("%w: node %d is malformed", ErrURL, len(urls)+1)
			}
			value = plain
		}
		urls = append(urls, value)
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("%w: redlock needs hosts, or node= for each of its nodes", ErrURL)
	}
	for i := range urls {
		for _, o := range others {
			sep := "?"
			if strings.Contains(urls[i], "?") {
				sep = "&"
			}
			urls[i] += sep + o
		}
	}
	return urls, nil
}

// unknownScheme returns an error that suggests a URL or a scheme.
func unknownScheme(text string) error {
	if url := suggest(text); url != "" {
		return fmt.Errorf("%w: it has no scheme: did you mean %.256s?", ErrURL, url)
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || strings.ContainsAny(scheme, "@/") { // before an @ there may be a password
		return fmt.Errorf("%w: it has no scheme, such as redis://host", ErrURL)
	}
	port, _, _ := strings.Cut(rest, "/")
	if port != "" && strings.Trim(port, "0123456789") == "" {
		return fmt.Errorf("%w: it has no scheme, such as redis://%.128s:%.5s", ErrURL, scheme, port)
	}
	var known []string
	for s := range schemes() {
		known = append(known, s)
	}
	slices.Sort(known)
	if best, ok := typo.Of(scheme, known, 2); ok {
		return fmt.Errorf("%w: unknown scheme %.32q: did you mean %s?", ErrURL, scheme, best)
	}
	return fmt.Errorf("%w: unknown scheme %.32q: there are %s", ErrURL, scheme, strings.Join(known, ", "))
}
