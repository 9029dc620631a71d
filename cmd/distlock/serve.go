package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/distlock/distlock/dashboard"
	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/open"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
)

// shutdownLimit bounds how long the last calls may take when the server ends.
const shutdownLimit = 5 * time.Second

// A service is one call of serve.
type service struct {
	*app
	accessFlags
	opsFlags
	listen     []string
	drain      time.Duration
	demo, only bool
	noTLS      bool
	embedded   bool // the store is a file of this host
	handler    *server.Server
	file       *appended // of the audit; nil: it is no file
	closes     []func() error

	readOnly  bool // of the pages
	dashboard *dashboard.Dashboard
	sessions  *dashboard.Sessions // nil: nobody logs in
	latest    *latest
	traffic   bool // of the demonstration
}

func (a *app) serve() *cobra.Command {
	s := &service{app: a, latest: &latest{}}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a lock server, for clients without access to the store",
		Long: "Run a lock server. Clients use the URL of the server instead of the URL of a store: " +
			"--store http://HOST:7520. The server forwards their calls to its own store. Without --store, " +
			"that is a SQLite file of this user. The server keeps nothing that a lock depends on: if it is " +
			"killed and started again, no lock is lost. Several servers can use one PostgreSQL, MariaDB, " +
			"Redis or etcd. On TERM or INT the server refuses new locks, serves renewals and releases " +
			"during --drain, and then ends.",
		Example: "  distlock serve\n" +
			"  distlock run --store http://localhost:7520 deploy -- ./deploy.sh\n" +
			"  distlock serve --store postgres://db/app --listen unix:/run/distlock.sock\n" +
			"  distlock serve --store postgres://db/app --listen :7520 --tls-cert cert.pem --tls-key key.pem --tokens tokens.toml",
		Args: exact(),
		RunE: func(c *cobra.Command, _ []string) error { return s.main(c) },
	}
	f := c.Flags()
	f.StringArrayVar(&s.listen, "listen", []string{"127.0.0.1:7520"}, "listen on `ADDRESS`: host:port, unix:/path, or systemd for the sockets of a .socket unit; can be repeated")
	f.DurationVar(&s.drain, "drain", 10*time.Second, "on TERM, serve renewals and releases for `D` before the end")
	f.BoolVar(&s.demo, "demo", false, "show the pages with invented traffic, in memory; with --store memory: allow that store, which forgets all locks when the server ends")
	f.BoolVar(&s.readOnly, "read-only", false, "the pages have no Break")
	f.BoolVar(&s.only, "only-server", false, "this is the only server of its address: needed for a SQLite file on other addresses than loopback")
	s.accessFlags.add(f)
	s.opsFlags.add(f)
	f.BoolVar(&s.noTLS, "insecure-no-tls", false, "listen there without TLS, because something in front of the server ends TLS")
	return c
}

func (s *service) main(c *cobra.Command) (err error) {
	defer func() { err = errors.Join(err, s.closeAll()) }()
	url, err := s.address(c)
	if err != nil {
		return err
	}
	if s.demo && !c.Flags().Changed("store") {
		url, s.traffic = "memory:", true
		if !c.Flags().Changed("local") {
			s.local = access.All.String()
		}
	}
	if url, err = s.check(url); err != nil {
		return err
	}
	if err := s.openStore(c.Context(), url); err != nil {
		return err
	}
	ctx, end := endedBy(c.Context(), s.ends()...)
	stop := sync.OnceFunc(end)
	defer stop()
	running, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	s.reopens(running) // also while the server drains: HUP would end it otherwise
	failed := make(chan error, 100)
	servers, err := s.startAll(ctx, failed)
	if err != nil {
		return errors.Join(err, shut(context.WithoutCancel(ctx), servers))
	}
	if s.traffic {
		end, err := runDemo(context.WithoutCancel(ctx), s.handler.Guarded())
		if err != nil {
			return errors.Join(err, shut(context.WithoutCancel(ctx), servers))
		}
		s.closes = append(s.closes, end)
		s.drain = 0 // nobody works under these locks
	}
	s.notifySystemd(daemon.SdNotifyReady)
	s.say("serves the store %s, store_id=%s; %s", s.source.Store.Features().Name, s.handler.Identity(), s.admits())
	select {
	case err := <-failed:
		return errors.Join(err, shut(context.WithoutCancel(ctx), servers))
	case <-ctx.Done():
	}
	stop() // a second signal ends the process at once
	s.handler.Drain()
	s.notifySystemd(daemon.SdNotifyStopping)
	s.dashboard.Close()
	s.say("ends in %v: it refuses new locks, and serves renewals and releases; a second signal ends it at once", s.drain)
	time.Sleep(s.drain)
	return shut(context.WithoutCancel(ctx), servers)
}

// check refuses flags that do not go together, and stores that a server must not have. It returns
// the URL of the store for remote holders.
func (s *service) check(url string) (string, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "http", "https", "unix":
		return "", usage("serve needs a store of its own, and %s names a lock server: %s: %s", s.storeFrom(), open.Redact(url),
			"unset it, or give --store with another URL")
	case "memory":
		if !s.demo {
			return "", usage("memory: forgets all locks when the server ends, while their holders go on: use --demo to try it all the same")
		}
	case "sqlite":
		s.embedded = true
		_, query, has := strings.Cut(rest, "?")
		if !strings.Contains(query, "holders=") {
			sep := "?"
			if has {
				sep = "&"
			}
			url += sep + "holders=remote" // they outlive a reboot of this host
		}
	}
	if err := s.checkOps(); err != nil {
		return "", err
	}
	if s.authenticates() {
		switch {
		case s.noAuth:
			return "", usage("--insecure-no-auth and --tokens exclude each other")
		case s.config.from["local"] != fromDefault:
			return "", usage("--local and --tokens exclude each other: with --tokens, clients on loopback prove their identity too")
		}
	}
	for _, addr := range s.listen {
		if err := s.checkAddress(addr); err != nil {
			return "", err
		}
	}
	return url, nil
}

// storeFrom says what named the store.
func (s *service) storeFrom() string {
	switch s.config.from["store"] {
	case fromFlag:
		return "--store"
	case fromEnv:
		return envName("store")
	}
	if os.Getenv("DISTLOCK_STORE_FILE") != "" {
		return "the file of DISTLOCK_STORE_FILE"
	}
	return "store in " + s.config.file
}

// checkAddress refuses an address that others than this host can reach, unless the flags allow it.
// The error has all flags that are missing.
func (s *service) checkAddress(addr string) error {
	if strings.HasPrefix(addr, "unix:") || addr == inherited {
		return nil
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return usage("--listen %.64q: want host:port, such as localhost:7520 or :7520, or unix:/path", addr)
	}
	if isLoopback(addr) {
		return nil
	}
	var missing []string
	if s.embedded && !s.only {
		missing = append(missing, "a second server with a SQLite file of its own behind this address would be a second set of locks: "+
			"give --only-server if there is none, or a store that servers share")
	}
	if s.cert == "" && !s.noTLS {
		missing = append(missing, "others on the network could read the owners of locks: give --tls-cert and --tls-key, or --insecure-no-tls")
	}
	if !s.authenticates() && !s.noAuth {
		missing = append(missing, "the server does not know its clients, and each may end every lock: "+
			"give --tokens, or --insecure-no-auth if the network lets only the right ones in")
	}
	if len(missing) > 0 {
		return usage("--listen %.64s: %s", addr, strings.Join(missing, "; "))
	}
	return nil
}

// isLoopback reports whether only this host reaches an address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// openStore opens the store, and refuses one that must not be served.
func (s *service) openStore(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.log = s.newLog()
	opt, err := s.options(s.log)
	if err == nil {
		err = s.operate(ctx, opt)
	}
	if err != nil {
		return err
	}
	if s.source, err = s.open(ctx, url); err == nil {
		var store driver.Store
		if store, err = s.pages(s.source.Store, opt); err == nil {
			s.handler, err = server.New(ctx, store, opt)
		}
	}
	switch {
	case errors.Is(err, open.ErrURL):
		return err
	case errors.Is(err, server.ErrRefused), errors.Is(err, errors.ErrUnsupported), errors.Is(err, driver.ErrInvalid):
		return &exitError{exitUsage, err}
	case err != nil:
		return &exitError{exitUnavailable, err}
	}
	return nil
}

// startAll listens on all addresses, and serves in the background.
func (s *service) startAll(ctx context.Context, failed chan<- error) (servers []*http.Server, err error) {
	listeners, addrs, err := s.sockets(s.listen)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		l, err := listen(ctx, addr)
		if err != nil {
			return servers, &exitError{exitUnavailable, fmt.Errorf("--listen %.256s: %w", addr, err)}
		}
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		servers = append(servers, s.start(l, failed))
	}
	if s.metricsListen != "" {
		h, err := s.startMetrics(ctx, failed)
		if err != nil {
			return servers, err
		}
		servers = append(servers, h)
	}
	return servers, nil
}

// start serves on a listener in the background.
func (s *service) start(l net.Listener, failed chan<- error) *http.Server {
	h := s.handler.HTTP()
	h.ErrorLog = s.errorLog()
	scheme := "http://"
	if l.Addr().Network() == "unix" {
		scheme, h.Handler = "unix:", s.handler.Socket()
	} else if isLoopback(l.Addr().String()) {
		h.Handler = s.handler.Local()
	}
	serve := func() error { return h.Serve(l) }
	if s.certificate != nil && scheme != "unix:" {
		scheme, h.TLSConfig = "https://", s.certificate.TLS()
		serve = func() error { return h.ServeTLS(l, "", "") }
	}
	go func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			failed <- &exitError{exitFailed, err}
		}
	}()
	s.say("listens on %s%s", scheme, l.Addr())
	return h
}

// listen listens on host:port, or on the socket of unix:/path, which only this user may use.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return config.Listen(ctx, "tcp", addr)
	}
	l, err := config.Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(ctx, path) {
		l, err = config.Listen(ctx, "unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// abandoned removes the socket of a server that was killed.
func abandoned(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close() // there is a server
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED) && os.Remove(path) == nil
}

// shut ends servers when their last calls have ended.
func shut(ctx context.Context, servers []*http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownLimit)
	defer cancel()
	var errs []error
	for _, h := range servers {
		if err := h.Shutdown(ctx); err != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}
