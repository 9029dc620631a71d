package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const (
	installPostgres = "apt-get install postgresql, or scripts/servers, or brew install postgresql"
	pgUser          = "postgres"
)

// A PostgresServer is a PostgreSQL server, with the superuser and the database postgres.
type PostgresServer struct {
	*Server

	bin string   // the folder of PostgreSQL's programs
	own settings // for its standbys
}

// Postgres starts a PostgreSQL server. The server does not wait for the disk, unless Fsync is
// given. PostgreSQL refuses to run as root. Tests that run as root start it as the user postgres or
// nobody.
func Postgres(t testing.TB, opts ...Option) *PostgresServer {
	t.Helper()
	o := collect(t, "Postgres", opts, "Config", "Fsync", "Password", "StandbyOf", "Shared", "OnDisk")
	if o.shared {
		return sharedPostgres(t)
	}
	var p *PostgresServer
	own(t, func(g *group) (err error) {
		p, err = startPostgres(g, o)
		return err
	})
	return p
}

func startPostgres(g *group, o settings) (*PostgresServer, error) {
	p, err := newPostgres(g, o)
	if err != nil {
		return nil, err
	}
	return p, p.up()
}

// newPostgres prepares a server of the group.
func newPostgres(g *group, o settings) (*PostgresServer, error) {
	// Only the server package contains initdb; psql and its wrappers may be installed alone.
	initdb, err := find("initdb", installPostgres)
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s, err := g.add("postgres")
	if err != nil {
		return nil, err
	}
	s.disk = o.disk
	// If initdb is a link, the other programs are next to its target.
	if initdb, err = filepath.EvalSymlinks(initdb); err != nil {
		return nil, err
	}
	bin := filepath.Dir(initdb)
	if o.postgres != nil {
		o.password = o.postgres.own.password // the users of a standby are those of its primary
		// pg_basebackup must have the version of the server, so no other folder is searched.
		if _, err := exec.LookPath(filepath.Join(bin, "pg_basebackup")); err != nil {
			return nil, &missingError{"pg_basebackup in the folder of initdb", installPostgres}
		}
	}
	p := &PostgresServer{Server: s, bin: bin, own: o}
	u := url.URL{
		Scheme: "postgres", Host: s.Addr, Path: "/postgres", RawQuery: "sslmode=disable",
		User: url.UserPassword(pgUser, cmp.Or(o.password, Canary)),
	}
	s.URL = u.String()
	s.stop = syscall.SIGINT // disconnects the clients and shuts down in order
	s.plan = plan{
		fill: func() error { return p.fill(o) },
		cmd: func() *exec.Cmd {
			return exec.Command(filepath.Join(p.bin, "postgres"), "-D", s.data())
		},
		ready: p.ready,
		death: syscall.SIGQUIT, // ends at once and releases its shared memory
		as:    as,
		after: p.releaseMemory,
	}
	return p, nil
}

// fill creates the data folder: a new one, or a copy of the primary's.
func (p *PostgresServer) fill(o settings) error {
	var err error
	switch {
	case o.postgres != nil:
		host, port, _ := net.SplitHostPort(o.postgres.Addr)
		cmd := exec.Command(filepath.Join(p.bin, "pg_basebackup"), "-h", host, "-p", port, "-U", pgUser,
			"-D", p.data(), "-c", "fast", "-X", "stream", "--no-sync", "-w")
		cmd.Env = append(os.Environ(), "PGPASSWORD="+o.password)
		err = p.produce(cmd)
	case o.password != "":
		file := p.path("password")
		err = errors.Join(os.WriteFile(file, []byte(o.password+"\n"), 0o600), p.plan.as.own(file))
		if err == nil {
			err = p.produce(p.initdb("--auth-host=scram-sha-256", "--pwfile="+file))
		}
	default:
		cmd := p.initdb("--auth-host=trust")
		err = fromTemplate(cmd.Path, p.data(), p.plan.as, func() error { return p.produce(cmd) }, renameCluster)
	}
	if err != nil {
		return err
	}
	return p.configure(o)
}

func (p *PostgresServer) initdb(args ...string) *exec.Cmd {
	args = append(args, "-D", p.data(), "-U", pgUser, "-E", "UTF8", "--locale=C", "--no-sync", "--auth-local=trust")
	return exec.Command(filepath.Join(p.bin, "initdb"), args...)
}

// produce runs the command that creates the data folder.
func (p *PostgresServer) produce(cmd *exec.Cmd) error {
	cmd.Dir = p.data()
	setAttributes(cmd, os.Kill, p.plan.as)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return nil
}

// configure replaces postgresql.conf.
func (p *PostgresServer) configure(o settings) error {
	host, port, _ := net.SplitHostPort(p.Addr)
	lines := []string{
		"listen_addresses = '" + host + "'", "port = " + port,
		"unix_socket_directories = ''",
		// Shared memory is in files of the data folder, since a killed server leaves other kinds
		// behind.
		"dynamic_shared_memory_type = mmap",
		"hot_standby_feedback = on", "wal_retrieve_retry_interval = '100ms'",
	}
	if !o.fsync {
		lines = append(lines, "fsync = off", "full_page_writes = off")
	}
	if primary := o.postgres; primary != nil {
		host, port, _ := net.SplitHostPort(primary.Addr)
		info := "host=" + host + " port=" + port + " user=" + pgUser
		if o.password != "" {
			info += " password=" + libpqQuote.Replace(o.password)
		}
		lines = append(lines, "primary_conninfo = '"+confQuote.Replace(info)+"'")
		// These settings may not be lower than the primary's.
		for _, line := range primary.own.lines {
			name, _, _ := strings.Cut(line, "=")
			if slices.Contains(pgMatched, strings.TrimSpace(name)) {
				lines = append(lines, line)
			}
		}
		signal := filepath.Join(p.data(), "standby.signal")
		if err := os.WriteFile(signal, nil, 0o600); err != nil {
			return err
		}
		if err := p.plan.as.own(signal); err != nil {
			return err
		}
	}
	conf := filepath.Join(p.data(), "postgresql.conf")
	return cmp.Or(writeLines(conf, append(lines, o.lines...)), p.plan.as.own(conf))
}

// In a connection string a backslash precedes a special character. In a setting, quotes and
// backslashes are doubled.
var (
	libpqQuote = strings.NewReplacer(`\`, `\\`, `'`, `\'`, ` `, `\ `)
	confQuote  = strings.NewReplacer(`\`, `\\`, `'`, `''`)
)

// pgMatched are the settings that must not be lower on a standby than on its primary.
var pgMatched = []string{
	"max_connections", "max_worker_processes", "max_wal_senders", "max_prepared_transactions",
	"max_locks_per_transaction",
}

// ready returns nil when the server answers, and a standby receives from its primary.
func (p *PostgresServer) ready(ctx context.Context) error {
	rows, err := p.Query(ctx, `select current_setting('data_directory'), pg_is_in_recovery(), count(*)
		from pg_stat_wal_receiver where status = 'streaming'`)
	if err != nil {
		return err
	}
	if folder := rows[0][0]; folder != p.data() {
		return fmt.Errorf("the answering server has its data in %s", folder)
	}
	if p.own.postgres != nil && slices.Equal(rows[0][1:], []string{"t", "0"}) && p.own.postgres.reachable(ctx) {
		return errors.New("the standby does not stream from its primary yet")
	}
	return nil
}

// reachable reports whether the server answers: a standby may be restarted without its primary.
func (p *PostgresServer) reachable(ctx context.Context) bool {
	_, err := p.Query(ctx, "select 1")
	return err == nil
}

// Query runs statements on a new connection and returns the rows as text, NULL as "". An error of
// the server is a [*PostgresError]. If ctx has no deadline, Query waits 30 s at most.
func (p *PostgresServer) Query(ctx context.Context, sql string) ([][]string, error) {
	return queryURL(ctx, p.Addr, p.URL, sql)
}

// Promote makes a standby a primary, and returns when it accepts writes.
func (p *PostgresServer) Promote() {
	p.tb.Helper()
	if _, err := p.Query(context.Background(), "select pg_promote(true, 20)"); err != nil {
		p.tb.Errorf("testenv: promote: %v", err)
	}
}

// Database creates an empty database, and returns its URL. The database is dropped when the test
// ends, if the server still answers.
func (p *PostgresServer) Database(t testing.TB) string {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())
	if _, err := p.Query(t.Context(), "create database "+name); err != nil {
		t.Fatalf("testenv: create a database: %v", err)
	}
	t.Cleanup(func() {
		// A failure does no harm: the server is gone, or ends with the test.
		p.Query(context.Background(), "drop database "+name+" with (force)")
	})
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

// releaseMemory removes the segment of shared memory that a killed server leaves behind. Its id is
// in the seventh line of postmaster.pid. A server that ended by itself has removed that file.
func (p *PostgresServer) releaseMemory() {
	b, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return
	}
	if lines := strings.Split(string(b), "\n"); len(lines) > 6 {
		if ids := strings.Fields(lines[6]); len(ids) == 2 {
			exec.Command("ipcrm", "-m", ids[1]).Run()
		}
	}
}

func queryURL(ctx context.Context, addr, raw, sql string) ([][]string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, err
	}
	user := cmp.Or(u.User.Username(), pgUser)
	password, _ := u.User.Password()
	return pgQuery(ctx, addr, user, password, cmp.Or(strings.TrimPrefix(u.Path, "/"), user), sql)
}
