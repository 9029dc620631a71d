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

// onThisHost reports whether all that a store's URL names is on this host. A name is not looked up: who calls this
// host by another name than localhost is asked once too often rather than never.
func onThisHost(store string) bool {
	scheme, rest, _ := strings.Cut(store, ":")
	switch {
	case scheme == "memory" || scheme == "sqlite" || strings.HasSuffix(scheme, "+unix"):
		return true
	}
	rest, query, _ := strings.Cut(rest, "?")
	keys, err := url.ParseQuery(query)
	if err != nil {
		return false
	}
	for _, node := range keys["node"] {
		if !onThisHost(node) {
			return false
		}
	}
	hosts, found := strings.CutPrefix(rest, "//")
	if !found {
		return len(keys["node"]) > 0
	}
	hosts, _, _ = strings.Cut(hosts, "/")
	hosts = hosts[strings.LastIndex(hosts, "@")+1:]
	if strings.HasPrefix(scheme, "postgres") && strings.Trim(hosts, ":,0123456789") == "" && keys.Get("host") == "" { // at most ports
		if cmp.Or(keys.Get("service"), os.Getenv("PGSERVICE")) != "" {
			return false // its file may name any host
		}
		hosts = os.Getenv("PGHOST")
	}
	all := strings.Split(hosts, ",")
	for _, key := range []string{"host", "hostaddr"} { // PostgreSQL: they stand in for the host
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

// private reports whether a store is one process's own.
func private(store string) bool { return strings.HasPrefix(store, "memory:") }

// loopback reports whether a host, with a port or without, is this one. No host at all is the default of clients: this one.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") { // a socket
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// mayLoad asks before a command puts load on a store that others may use. A URL that is wrong is told before that.
func (a *app) mayLoad(ctx context.Context, store, what string, yes bool) error {
	if yes || onThisHost(store) {
		return nil
	}
	if err := a.misspelt(ctx, store); err != nil {
		return err
	}
	if !isTerminal(a.in) {
		return usage("the store is not on this host: %s would put load on it; give --yes if that is meant", what)
	}
	fmt.Fprintf(a.err, "%s is not on this host. %s will put load on it, under names of its own.\ntype yes to go on: ", a.redact(store), what)
	text, _ := bufio.NewReader(a.in).ReadString('\n')
	if strings.TrimRight(text, "\r\n") != "yes" {
		return usage("nothing was done")
	}
	return nil
}

// misspelt returns what is wrong with a URL, and waits for no server.
func (a *app) misspelt(ctx context.Context, store string) error {
	over, cancel := context.WithCancel(ctx)
	cancel()
	s, err := a.open(over, store)
	switch {
	case errors.Is(err, open.ErrURL):
		return err
	case err == nil:
		s.Close()
	}
	return nil // whatever else it is, connect tells it
}
