package testenv

import (
	"testing"

	"github.com/distlock/distlock/internal/proxy"
)

// A ProxyServer is a TCP proxy that produces faults on command. All methods may be called at any
// time. They act on open and on future connections.
type ProxyServer = proxy.Proxy

// A Direction is a way through a [ProxyServer]. ToServer carries requests, ToClient replies.
type Direction = proxy.Direction

// The directions.
const (
	ToServer = proxy.ToServer
	ToClient = proxy.ToClient
	Both     = proxy.Both
)

// Proxy starts a proxy in front of addr. It forwards everything until a method changes that.
func Proxy(t testing.TB, addr string) *ProxyServer {
	t.Helper()
	return ProxyAt(t, "127.0.0.1", addr)
}

// ProxyAt is [Proxy] on another address of this host, such as [Network.Host].
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
