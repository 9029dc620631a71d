package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/distlock/distlock/open"
)

// onThisHost reports whether all servers that a store's URL names are on this host. Host names are
// not resolved: a name other than localhost counts as another host, so that the user confirms once
// too often rather than never.
func onThisHost(store string) bool {
	scheme, path, _ := strings.Cut(store, ":")
	if scheme == "memory" || scheme == "sqlite" || scheme == "unix" || strings.HasSuffix(scheme, "+unix") {
		return true
	}
	path, query, _ := strings.Cut(path, "?")
	keys, err := url.ParseQuery(query)
	if err != nil {
		return false
	}
	for _, node := range keys["node"] {
		if !onThisHost(node) {
			return false
		}
	}
	hosts, found := strings.CutPrefix(path, "//")
	if !found {
		return len(keys["node"]) > 0
	}
	hosts, _, _ = strings.Cut(hosts, "/")
	hosts = hosts[strings.LastIndex(hosts, "@")+1:]
	// A URL of PostgreSQL may have no host, or only ports.
	if strings.HasPrefix(scheme, "postgres") && strings.Trim(hosts, ":,0123456789") == "" && keys.Get("host") == "" {
		if cmp.Or(keys.Get("service"), os.Getenv("PGSERVICE")) != "" {
			return false // the service file may name any host
		}
		hosts = os.Getenv("PGHOST")
	}
	all := strings.Split(hosts, ",")
	for _, key := range []string{"host", "hostaddr"} { // PostgreSQL: these keys replace the host
		for _, h := range keys[key] {
			all = append(all, strings.Split(h, ",")...)
		}
	}
	for _, h := range all {
		if !loopback(h) {
			return false
		}
	}
	return true
}

// private reports whether a store belongs to one process only.
func private(store string) bool { return strings.HasPrefix(store, "memory:") }

// loopback reports whether a host, with or without a port, is this host. An empty host is this
// host, because that is the default of clients.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") { // a path is a socket
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// confirmLoad makes the user confirm before a command puts load on a store that others may use. It
// returns the error of a wrong URL before that.
func (a *app) confirmLoad(ctx context.Context, store, command string, yes bool) error {
	if yes || onThisHost(store) {
		return nil
	}
	if err := a.checkURL(ctx, store); err != nil {
		return err
	}
	if !isTerminal(a.in) {
		return usage("the store is not on this host: %s would put load on it; give --yes if that is intended", command)
	}
	fmt.Fprintf(a.err, "%s is not on this host. %s will put load on it, under names of its own.\ntype yes to go on: ",
		a.redact(store), command)
	text, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimRight(text, "\r\n") != "yes" {
		return usage("not confirmed: nothing was done")
	}
	return nil
}

// checkURL returns an error if a URL is invalid. It does not wait for a server.
func (a *app) checkURL(ctx context.Context, store string) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	s, err := a.open(ended, store)
	switch {
	case errors.Is(err, open.ErrURL):
		return err
	case err == nil:
		s.Close()
	}
	return nil // connect returns all other errors
}
