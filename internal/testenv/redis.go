package testenv

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const installRedis = "apt-get install redis-server, or scripts/servers, or brew install redis"

// A RedisServer is a Redis server.
type RedisServer struct {
	*Server
	Socket string // path of the unix socket, with UnixSocket
	Certs  *Certs // with TLS

	password string
}

// Redis starts a Redis server. It has no persistence, unless AOF is given.
func Redis(t testing.TB, opts ...Option) *RedisServer {
	t.Helper()
	o := collect(t, "Redis", opts, "Config", "AOF", "DebugCommand", "UnixSocket", "TLS", "Password", "ACL",
		"ReplicaOf", "Shared", "OnDisk")
	if o.shared {
		return sharedRedis(t)
	}
	var r *RedisServer
	own(t, func(g *group) (err error) {
		r, err = startRedis(g, o)
		return err
	})
	return r
}

func startRedis(g *group, o settings) (*RedisServer, error) {
	r, err := newRedis(g, o)
	if err != nil {
		return nil, err
	}
	return r, r.up()
}

// newRedis prepares a server of the group.
func newRedis(g *group, o settings) (*RedisServer, error) {
	program, err := find("redis-server", installRedis)
	if err != nil {
		return nil, err
	}
	s, err := g.add("redis-server")
	if err != nil {
		return nil, err
	}
	s.disk = o.disk
	r := &RedisServer{Server: s, password: o.password}
	u := url.URL{Scheme: "redis", Host: s.Addr, Path: "/0"}
	switch {
	case o.password != "":
		u.User = url.UserPassword("", o.password)
	case o.acl == nil:
		u.User = url.UserPassword("default", Canary) // the default user has no password and accepts any
	}
	if o.redis != nil && o.redis.Certs != nil {
		// Both servers speak TLS with each other, so they have one authority.
		o.tls, r.Certs = true, o.redis.Certs
	} else if o.tls {
		if r.Certs, err = NewCerts(s.folder.path); err != nil {
			return nil, err
		}
	}
	if o.tls {
		u.Scheme = "rediss"
	}
	if o.socket {
		r.Socket = s.path("socket")
	}
	s.URL = u.String()
	s.stop = syscall.SIGTERM
	s.plan = plan{
		fill: func() error { return r.configure(o) },
		cmd:  func() *exec.Cmd { return exec.Command(program, s.path("redis.conf")) },
		ready: func(ctx context.Context) error {
			return r.ready(ctx, o.redis != nil)
		},
		death: os.Kill,
	}
	return r, nil
}

// configure writes redis.conf and the file of users.
func (r *RedisServer) configure(o settings) error {
	host, port, _ := net.SplitHostPort(r.Addr)
	// A primary sends its data to a new replica at once, instead of waiting for others. The
	// background thread of the allocator waits by the time of day. It would keep a processor busy
	// after a test has set the time back.
	lines := []string{"bind " + host, "dir " + r.data(), `save ""`, "repl-diskless-sync-delay 0", "jemalloc-bg-thread no"}
	if o.tls {
		lines = append(lines, "port 0", "tls-port "+port, "tls-auth-clients optional", "tls-replication yes",
			"tls-ca-cert-file "+r.Certs.CA, "tls-cert-file "+r.Certs.Cert, "tls-key-file "+r.Certs.Key)
	} else {
		lines = append(lines, "port "+port)
	}
	if o.aof {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	if o.debug {
		lines = append(lines, "enable-debug-command local")
	}
	if o.socket {
		lines = append(lines, "unixsocket "+r.Socket, "unixsocketperm 777")
	}
	if o.password != "" {
		lines = append(lines, "requirepass "+quote(o.password), "masterauth "+quote(o.password))
	}
	if o.acl != nil {
		lines = append(lines, "aclfile "+r.path("users.acl"))
		users := strings.Join(o.acl, "\n") + "\n"
		if err := os.WriteFile(r.path("users.acl"), []byte(users), 0o600); err != nil {
			return err
		}
	}
	if p := o.redis; p != nil {
		host, port, _ := net.SplitHostPort(p.Addr)
		lines = append(lines, "replicaof "+host+" "+port)
		if p.password != "" {
			lines = append(lines, "masterauth "+quote(p.password))
		}
	}
	return writeLines(r.path("redis.conf"), append(lines, o.lines...))
}

// ready returns nil when the server answers PING, and a replica has its primary's data.
func (r *RedisServer) ready(ctx context.Context, replica bool) error {
	_, err := r.Do(ctx, "PING")
	var refusal RedisError
	if errors.As(err, &refusal) {
		// A server with its own users is up when it requires a password.
		if code, _, _ := strings.Cut(string(refusal), " "); code == "NOAUTH" || code == "NOPERM" {
			return nil
		}
	}
	if err != nil {
		return err
	}
	// Another Redis may have answered on a port that was taken.
	if pid := r.Info(ctx, "process_id"); pid != strconv.Itoa(r.run.cmd.Process.Pid) {
		return fmt.Errorf("the answering server is process %s", pid)
	}
	if !replica {
		return nil
	}
	if link := r.Info(ctx, "master_link_status"); link != "up" {
		return fmt.Errorf("the link to the primary is %q", link)
	}
	return nil
}

// Do sends a command on a new connection, with the password if there is one, and returns its reply:
// a string, an int64, nil or a []any of them. An error reply is a [RedisError]. If ctx has no
// deadline, Do waits 30 s at most.
func (r *RedisServer) Do(ctx context.Context, args ...string) (any, error) {
	c, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.do(args...)
}

// probe is Do with a short limit, for one node of many, of which some may be paused.
func (r *RedisServer) probe(ctx context.Context, args ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return r.Do(ctx, args...)
}

// Info returns a field of INFO, such as "role" or "run_id", or "" if it cannot.
func (r *RedisServer) Info(ctx context.Context, field string) string {
	v, err := r.Do(ctx, "INFO", "everything")
	if err != nil {
		return ""
	}
	text, _ := v.(string)
	return lineValue(text, field)
}

func (r *RedisServer) dial(ctx context.Context) (*respConn, error) {
	var conf *tls.Config
	if r.Certs != nil {
		var err error
		if conf, err = r.Certs.Client(); err != nil {
			return nil, err
		}
	}
	conn, err := dial(ctx, r.Addr, conf)
	if err != nil {
		return nil, err
	}
	c := &respConn{conn, bufio.NewReader(conn)}
	if r.password == "" {
		return c, nil
	}
	if _, err := c.do("AUTH", r.password); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// lineValue returns the value of a line "name:value".
func lineValue(text, name string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// quote formats a value for redis.conf.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func writeLines(path string, lines []string) error {
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}
