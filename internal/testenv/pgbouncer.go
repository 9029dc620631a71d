package testenv

import (
	"context"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

const installPgBouncer = "apt-get install pgbouncer, or scripts/servers, or brew install pgbouncer"

// A PoolMode says when PgBouncer assigns a server connection to another client.
type PoolMode string

// The modes: at the end of the client's connection, transaction or statement.
const (
	PoolSession     PoolMode = "session"
	PoolTransaction PoolMode = "transaction"
	PoolStatement   PoolMode = "statement"
)

// A PgBouncerServer is a PgBouncer in front of a PostgresServer.
type PgBouncerServer struct{ *Server }

// PgBouncer starts a PgBouncer in front of pg. It knows the user postgres, accepts clients without
// a password and serves every database of pg. It knows the option Config.
func PgBouncer(t testing.TB, pg *PostgresServer, mode PoolMode, opts ...Option) *PgBouncerServer {
	t.Helper()
	o := collect(t, "PgBouncer", opts, "Config")
	var p *PgBouncerServer
	own(t, func(g *group) (err error) {
		if p, err = newPgBouncer(g, pg, mode, o); err != nil {
			return err
		}
		return p.up()
	})
	return p
}

// newPgBouncer prepares a server of the group.
func newPgBouncer(g *group, pg *PostgresServer, mode PoolMode, o settings) (*PgBouncerServer, error) {
	program, err := find("pgbouncer", installPgBouncer)
	if err != nil {
		return nil, err
	}
	// PgBouncer refuses to run as root too.
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s, err := g.add("pgbouncer")
	if err != nil {
		return nil, err
	}
	p := &PgBouncerServer{s}
	u := url.URL{
		Scheme: "postgres", Host: s.Addr, Path: "/postgres", RawQuery: "sslmode=disable",
		User: url.UserPassword(pgUser, Canary),
	}
	s.URL = u.String()
	s.stop = syscall.SIGQUIT // at once in all versions; the meaning of the other signals has changed
	s.plan = plan{
		fill: func() error { return p.configure(pg, mode, o) },
		cmd:  func() *exec.Cmd { return exec.Command(program, s.path("pgbouncer.ini")) },
		ready: func(ctx context.Context) error {
			_, err := p.Query(ctx, "select 1")
			return err
		},
		death: syscall.SIGQUIT,
		as:    as,
	}
	return p, nil
}

func (p *PgBouncerServer) configure(pg *PostgresServer, mode PoolMode, o settings) error {
	host, port, _ := net.SplitHostPort(p.Addr)
	pgHost, pgPort, _ := net.SplitHostPort(pg.Addr)
	users := p.path("users.txt")
	// The password is for pg: clients need none.
	secret := strings.ReplaceAll(pg.own.password, `"`, `""`)
	if err := writeLines(users, []string{`"` + pgUser + `" "` + secret + `"`}); err != nil {
		return err
	}
	return writeLines(p.path("pgbouncer.ini"), append([]string{
		"[databases]",
		"* = host=" + pgHost + " port=" + pgPort,
		"[pgbouncer]",
		"listen_addr = " + host, "listen_port = " + port, "unix_socket_dir =",
		"auth_type = trust", "auth_file = " + users, "admin_users = " + pgUser,
		"pool_mode = " + string(mode),
		// A server that comes back is retried soon.
		"server_login_retry = 1",
	}, o.lines...))
}

// Query runs statements on a new connection through PgBouncer, as [PostgresServer.Query] does.
func (p *PgBouncerServer) Query(ctx context.Context, sql string) ([][]string, error) {
	return queryURL(ctx, p.Addr, p.URL, sql)
}
