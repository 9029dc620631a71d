package pgurl

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/distlock/distlock/internal/protocol"
)

// Connect calls connect, which connects to the servers of a configuration. It returns a
// [*protocol.Error] if one of them is not a PostgreSQL server, or has no TLS although it is
// required.
func Connect(ctx context.Context, conf *pgconn.Config,
	connect func(ctx context.Context) error) error {
	want := protocol.PostgresTLS
	var addrs []string
	add := func(host string, port uint16, plain bool) {
		if plain {
			want = protocol.Postgres
		}
		addr := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if !strings.HasPrefix(host, "/") && !slices.Contains(addrs, addr) { // a path is a socket
			addrs = append(addrs, addr)
		}
	}
	add(conf.Host, conf.Port, conf.TLSConfig == nil)
	for _, f := range conf.Fallbacks {
		add(f.Host, f.Port, f.TLSConfig == nil)
	}
	return protocol.Connect(ctx, want, addrs, connect)
}
