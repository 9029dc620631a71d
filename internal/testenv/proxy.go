package testenv

import (
	"testing"

	"github.com/distlock/distlock/internal/proxy"
)

// A ProxyServer is a TCP proxy that misbehaves on command. All methods may be called at any
// time and act on connections that are open and on those to come.
type ProxyServer = proxy.Proxy

// A Direction is a way through a ProxyServer. ToServer carries requests, ToClient replies.
type Direction = proxy.Direction

// The directions.
const (
	ToServer = proxy.ToServer
	ToClient = proxy.ToClient
	Both     = proxy.Both
)

// Proxy starts a proxy in front of addr. It passes everything on until told otherwise.
func Proxy(t testing.TB, addr string) *ProxyServer {
	t.Helper()
	return ProxyAt(t, "127.0.0.1", addr)
}

// ProxyAt is Proxy on another address of this host, such as a Network's.
func ProxyAt(t testing.TB, host, addr string) *ProxyServer {
	t.Helper()
	l, port, err := ports.listen(host)
	check(t, err)
	p := proxy.New(l, addr)
	t.Cleanup(func() {
		p.Close()
		ports.give(port)
	})
	return p
}
