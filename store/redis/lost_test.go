package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"

	goclient "github.com/redis/go-redis/v9"
	ruclient "github.com/redis/rueidis"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/store/redis"
	"github.com/distlock/distlock/store/redis/goredisstore"
	"github.com/distlock/distlock/store/redis/rueidisstore"
)

// TestStore_lostReply on a cluster, whose clients have other ways to send a command again.
func TestStore_lostReply_cluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.RedisCluster(t, testenv.Primaries(1), testenv.Replicas(0))
	node := cluster.Nodes[0]
	proxy := testenv.Proxy(t, node.Addr)
	var dial net.Dialer // the node reports its own address, but the connection goes through the proxy
	for name, open := range map[string]func(t *testing.T, opt *redis.Options) *redis.Store{
		"goredis": func(t *testing.T, opt *redis.Options) *redis.Store {
			c := goclient.NewClusterClient(&goclient.ClusterOptions{
				Addrs: cluster.Addrs(),
				Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return dial.DialContext(ctx, network, proxy.Addr)
				},
			})
			t.Cleanup(func() { c.Close() })
			return made(t)(goredisstore.New(c, opt))
		},
		"rueidis": func(t *testing.T, opt *redis.Options) *redis.Store {
			c, err := ruclient.NewClient(ruclient.ClientOption{
				InitAddress: cluster.Addrs(), DisableCache: true,
				DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return d.DialContext(ctx, "tcp", proxy.Addr)
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return made(t)(rueidisstore.New(c, opt))
		},
	} {
		for kind, replicas := range map[string]int{"plain": 0, "replicas": 1} {
			t.Run(name+" "+kind, func(t *testing.T) {
				opt := fresh()
				direct := clusterAdapters[name](t, login{addr: node.Addr, opt: opt})
				careful := *opt
				careful.Replicas = replicas
				lostReply(t, node, proxy, open(t, &careful), direct)
			})
		}
	}
}

// lostReply loses the answer to an attempt of s, which goes through the proxy. direct does not.
func lostReply(t *testing.T, srv *testenv.RedisServer, proxy *testenv.ProxyServer, s, direct *redis.Store) {
	_, _ = s.Acquire(t.Context(), exclusive("other")) // the script is known, and connections are made
	r := exclusive("key")
	do(t, srv, "CONFIG", "RESETSTAT")
	eaten := proxy.EatReply([]byte(r.Owner))
	res, err := s.Acquire(t.Context(), r)
	<-eaten
	if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrInvalid) {
		t.Fatalf("Acquire: granted %v, error %v; want an unknown outcome", res.Granted, err)
	}
	if n := count(t, srv, "time"); n != 1 { // a grant reads the clock once
		t.Fatalf("the script ran %d times, want once", n)
	}
	cs := claims(t, direct, "key")
	if len(cs) != 1 {
		t.Fatalf("%d claims, want the one whose grant was not seen", len(cs))
	}
	if again := grant(t, direct, r); again.Fence != cs[0].Fence {
		t.Errorf("fence %d, after another attempt %d; want the same", cs[0].Fence, again.Fence)
	}
}

// The answer of WAIT is lost. The store releases the claim, and sends nothing again.
func TestStore_lostWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func(testing.TB, login) *redis.Store) {
		srv := testenv.Redis(t)
		proxy := testenv.Proxy(t, srv.Addr)
		s := open(t, login{addr: proxy.Addr, opt: &redis.Options{Replicas: 1}})
		_, _ = s.Acquire(t.Context(), exclusive("other"))
		do(t, srv, "CONFIG", "RESETSTAT")
		eaten := proxy.EatReply([]byte("WAIT"))
		_, err := s.Acquire(t.Context(), exclusive("key"))
		<-eaten
		if err == nil || count(t, srv, "time") != 1 || count(t, srv, "wait") != 1 {
			t.Fatalf("error %v; %d grants and %d WAITs, want one each", err,
				count(t, srv, "time"), count(t, srv, "wait"))
		}
		left := len(claims(t, open(t, login{addr: srv.Addr}), "key"))
		if given := errors.Is(err, driver.ErrUnavailable); given != (left == 0) {
			t.Errorf("error %v, and %d claims are left", err, left)
		}
	})
}
