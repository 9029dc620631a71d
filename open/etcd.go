package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/etcd"
)

func openEtcd(ctx context.Context, text string) (*Source, error) {
	s, err := etcd.Open(ctx, text)
	if err != nil {
		if errors.Is(err, etcd.ErrURL) {
			err = fmt.Errorf("%w: %w", ErrURL, err)
		}
		return nil, err
	}
	return &Source{Store: s, Findings: etcdTransport(text), closes: []func(){func() { _ = s.Close() }}}, nil
}

// etcdTransport returns the findings about the connection that a URL for etcd shows.
func etcdTransport(text string) []driver.Finding {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndex(authority, "@")
	values, _ := url.ParseQuery(query)
	all := []driver.Finding{privacy(authority[at+1:], scheme == "etcds", values.Get("tls_skip_verify") == "true",
		"etcds:// in place of etcd://")}
	if at < 0 && values.Get("tls_cert") == "" {
		all = append(all, driver.Finding{
			Level: driver.LevelWarning, What: "the URL has no user and no client certificate: if the cluster accepts it, it accepts every client that reaches it",
			Means: "a client that can connect can end every claim", Cure: "enable authentication in etcd, with a role for the prefix, or require client certificates",
		})
	}
	return all
}
