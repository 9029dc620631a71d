package testenv

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

const (
	installMariaDB = "apt-get install mariadb-server, or scripts/servers --all, or brew install mariadb"
	mariaUser      = "distlock"
	mariaDatabase  = "distlock"
)

// A MariaDBServer is a MariaDB server, with a user that may do everything and the database
// distlock.
type MariaDBServer struct {
	*Server
}

// MariaDB starts a MariaDB server. The server does not wait for the disk, unless Fsync is given.
// Tests that run as root start it as another user.
func MariaDB(t testing.TB, opts ...Option) *MariaDBServer {
	t.Helper()
	o := collect(t, "MariaDB", opts, "Config", "Fsync", "Password", "Shared", "OnDisk")
	if o.shared {
		return sharedMariaDB(t)
	}
	var m *MariaDBServer
	own(t, func(g *group) (err error) {
		m, err = startMariaDB(g, o)
		return err
	})
	return m
}

func startMariaDB(g *group, o settings) (*MariaDBServer, error) {
	program, err := find("mariadbd", installMariaDB)
	if err != nil {
		return nil, err
	}
	install, err := find("mariadb-install-db", installMariaDB)
	if err != nil {
		return nil, err
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s, err := g.add("mariadb")
	if err != nil {
		return nil, err
	}
	s.disk = o.disk
	password := cmp.Or(o.password, Canary)
	u := url.URL{Scheme: "mysql", Host: s.Addr, Path: "/" + mariaDatabase, User: url.UserPassword(mariaUser, password)}
	s.URL = u.String()
	s.stop = syscall.SIGTERM
	m := &MariaDBServer{Server: s}
	s.plan = plan{
		fill: func() error { return m.fill(o, program, install, password) },
		cmd: func() *exec.Cmd {
			return exec.Command(program, "--defaults-file="+s.path("my.cnf"))
		},
		ready: m.ready, death: os.Kill, as: as,
	}
	return m, s.up()
}

// fill creates the data folder, the configuration, and the statements that the server runs at its
// start: they create the user, because the password must not be in the arguments of a program.
func (m *MariaDBServer) fill(o settings, program, install, password string) error {
	cmd := exec.Command(install, "--no-defaults", "--datadir="+m.data(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--cross-bootstrap", "--innodb-log-file-size=8M", "--innodb-fast-shutdown=0",
		// The server's account may not write to the temporary folder of the tests.
		"--tmpdir="+m.data())
	err := fromTemplate(program, m.data(), m.plan.as, func() error {
		cmd.Dir = m.data()
		setAttributes(cmd, os.Kill, m.plan.as)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(m.Addr)
	lines := []string{
		"[mariadbd]", "datadir = " + m.data(), "bind-address = " + host, "port = " + port,
		// A server that starts removes the temporary tables of all servers in the folder.
		"tmpdir = " + m.data(), "socket = " + filepath.Join(m.data(), "s"), "pid-file = " + filepath.Join(m.data(), "pid"),
		"init-file = " + m.path("init.sql"), "skip-name-resolve", "innodb_log_file_size = 8M",
		"innodb_buffer_pool_size = 32M", "performance_schema = OFF", "max_connections = 500",
	}
	if !o.fsync {
		lines = append(lines, "innodb_flush_log_at_trx_commit = 2", "innodb_flush_method = nosync", "innodb_doublewrite = OFF")
	}
	start := []string{
		"CREATE USER IF NOT EXISTS '" + mariaUser + "'@'%' IDENTIFIED BY '" + sqlQuote.Replace(password) + "';",
		"GRANT ALL ON *.* TO '" + mariaUser + "'@'%' WITH GRANT OPTION;",
		"CREATE DATABASE IF NOT EXISTS " + mariaDatabase + ";",
	}
	return cmp.Or(
		writeLines(m.path("my.cnf"), append(lines, o.lines...)), m.plan.as.own(m.path("my.cnf")),
		writeLines(m.path("init.sql"), start), m.plan.as.own(m.path("init.sql")))
}

var sqlQuote = strings.NewReplacer(`\`, `\\`, `'`, `''`)

// ready returns nil when this server answers.
func (m *MariaDBServer) ready(ctx context.Context) error {
	rows, err := m.Query(ctx, "SELECT @@datadir")
	if err != nil {
		return err
	}
	if folder := rows[0][0]; filepath.Clean(folder) != m.data() {
		return fmt.Errorf("the answering server has its data in %s", folder)
	}
	return nil
}

// Query runs one statement on a new connection and returns the rows as text, NULL as "".
func (m *MariaDBServer) Query(ctx context.Context, text string) ([][]string, error) {
	conf, err := MariaDBConfig(m.URL)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(conf)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all [][]string
	for rows.Next() {
		cells, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		row := make([]string, len(names))
		for i := range cells {
			row[i] = cells[i].String
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// MariaDBConfig returns the configuration of a client for a URL.
func MariaDBConfig(raw string) (*mysql.Config, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "mysql" || u.Host == "" {
		return nil, errors.New("testenv: not a URL of the form mysql://user[:password]@host:port/database")
	}
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.User = "tcp", u.Host, u.User.Username()
	conf.Passwd, _ = u.User.Password()
	conf.DBName = strings.TrimPrefix(u.Path, "/")
	conf.Logger = &mysql.NopLogger{}
	return conf, nil
}

// Database creates an empty database, and returns its URL. The database is dropped when the test
// ends, if the server still answers.
func (m *MariaDBServer) Database(t testing.TB) string {
	t.Helper()
	name := "t" + strings.ToLower(rand.Text())
	if _, err := m.Query(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("testenv: create a database: %v", err)
	}
	t.Cleanup(func() {
		// A failure does no harm: the server is gone, or ends with the test.
		m.Query(context.Background(), "DROP DATABASE "+name)
	})
	u, err := url.Parse(m.URL)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

func sharedMariaDB(t testing.TB) *MariaDBServer {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	check(t, shared.start("mariadb", func(g *group) (err error) {
		if raw := os.Getenv("DISTLOCK_TEST_MARIADB"); raw != "" {
			shared.mariadb, err = mariaDBAt(raw)
			return err
		}
		shared.mariadb, err = startMariaDB(g, settings{})
		return err
	}))
	m := *shared.mariadb
	m.Server = m.Server.view(t)
	return &m
}

// mariaDBAt returns a server that was started outside the tests.
func mariaDBAt(raw string) (*MariaDBServer, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "mysql" || u.Host == "" {
		return nil, errors.New("DISTLOCK_TEST_MARIADB is not mysql://user[:password]@host[:port]/database")
	}
	m := &MariaDBServer{Server: foreign("mariadb", u, raw, "3306")}
	if _, err := m.Query(context.Background(), "SELECT 1"); err != nil {
		return nil, fmt.Errorf("the MariaDB that DISTLOCK_TEST_MARIADB names does not answer: %w", err)
	}
	return m, nil
}
