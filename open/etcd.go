package open

import (
	"context"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/etcd"
)

func openEtcd(ctx context.Context, text string) (*Source, error) {
	s, err := etcd.Open(ctx, text)
	return sourceOf(text, s, err, etcd.ErrURL, etcdTransport)
}

// etcdTransport returns the findings about the connection that a URL for etcd shows.
func etcdTransport(text string) []driver.Finding {
	scheme, user, hosts, query := split(text)
	all := []driver.Finding{privacy(hosts, scheme == "etcds", query.Get("tls_skip_verify") == "true",
		"etcds:// in place of etcd://")}
	if user == "" && query.Get("tls_cert") == "" {
		all = append(all, driver.Finding{
			Level: driver.LevelWarning, What: "the URL has no user and no client certificate: if the cluster accepts it, it accepts every client that reaches it",
			Means: "a client that can connect can end every claim", Cure: "enable authentication in etcd, with a role for the prefix, or require client certificates",
		})
	}
	return all
}
