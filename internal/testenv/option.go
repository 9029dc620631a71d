package testenv

import (
	"slices"
	"testing"
)

// An Option changes how a server is started. The comment of each option lists the servers that know
// it. Any other server fails the test.
type Option struct {
	name string
	set  func(*settings)
}

type settings struct {
	lines     []string
	aof       bool
	fsync     bool
	debug     bool
	socket    bool
	tls       bool
	shared    bool
	password  string
	acl       []string
	redis     *RedisServer
	postgres  *PostgresServer
	primaries int
	replicas  int
	members   int
	disk      *Disk
	network   *Network
}

// Config adds lines to the configuration, in the server's own syntax: redis.conf, postgresql.conf,
// the [pgbouncer] section of pgbouncer.ini, the [mariadbd] section of my.cnf. For Etcd they are
// arguments. The last line about a setting counts, and these lines come after the lines of this
// package.
func Config(lines ...string) Option {
	return Option{"Config", func(s *settings) { s.lines = append(s.lines, lines...) }}
}

// AOF makes Redis write its append-only file at every write, so that the data survives Kill.
// Without this option Redis keeps nothing. Known to Redis, RedisCluster and Sentinel.
func AOF() Option { return Option{"AOF", func(s *settings) { s.aof = true }} }

// Fsync makes the server wait for the disk. Without this option the server does not wait, since
// Kill loses nothing that the kernel has. Known to Postgres, MariaDB and Etcd.
func Fsync() Option { return Option{"Fsync", func(s *settings) { s.fsync = true }} }

// DebugCommand allows Redis's DEBUG command. Known to Redis, RedisCluster and Sentinel.
func DebugCommand() Option { return Option{"DebugCommand", func(s *settings) { s.debug = true }} }

// UnixSocket makes Redis listen on [RedisServer.Socket] too. Known to Redis.
func UnixSocket() Option { return Option{"UnixSocket", func(s *settings) { s.socket = true }} }

// TLS makes the server speak TLS only, with certificates made for it; see [RedisServer.Certs].
// Etcd requires a certificate from its clients too. Known to Redis and Etcd.
func TLS() Option { return Option{"TLS", func(s *settings) { s.tls = true }} }

// Password is required from clients. Known to Redis, RedisCluster, Sentinel (for the data
// nodes), Postgres (for TCP; user postgres) and MariaDB (user distlock).
func Password(p string) Option { return Option{"Password", func(s *settings) { s.password = p }} }

// ACL writes Redis's file of users, for example ACL("user app on >secret ~* +@all").
// Known to Redis. It excludes Password: write the default user instead.
func ACL(users ...string) Option {
	return Option{"ACL", func(s *settings) { s.acl = append(s.acl, users...) }}
}

// ReplicaOf makes the server replicate another, with its password and TLS. Known to Redis.
func ReplicaOf(primary *RedisServer) Option {
	return Option{"ReplicaOf", func(s *settings) { s.redis = primary }}
}

// StandbyOf makes the server a hot standby of another. Known to Postgres.
func StandbyOf(primary *PostgresServer) Option {
	return Option{"StandbyOf", func(s *settings) { s.postgres = primary }}
}

// Shared selects the plain server that all tests of the package share, or the server that the
// environment names. A shared server cannot be stopped or configured, and it contains the data that
// other tests wrote. It needs [Main], which stops it. Known to Redis, Postgres and MariaDB.
func Shared() Option { return Option{"Shared", func(s *settings) { s.shared = true }} }

// Primaries sets the number of primaries, 3 if not given. Known to RedisCluster.
func Primaries(n int) Option { return Option{"Primaries", func(s *settings) { s.primaries = n }} }

// Replicas sets the number of replicas of each primary, 1 if not given. Known to
// RedisCluster and Sentinel.
func Replicas(n int) Option { return Option{"Replicas", func(s *settings) { s.replicas = n }} }

// OnDisk puts the data of the server on a disk that can be full. Known to Redis, Postgres and
// MariaDB.
func OnDisk(d *Disk) Option { return Option{"OnDisk", func(s *settings) { s.disk = d }} }

// Members sets the number of members, 1 if not given. Known to Etcd.
func Members(n int) Option { return Option{"Members", func(s *settings) { s.members = n }} }

// Inside runs the first member in a network, so that it can be cut off from the other members.
// Clients on its side use [EtcdCluster.Socket]. Known to Etcd.
func Inside(n *Network) Option { return Option{"Inside", func(s *settings) { s.network = n }} }

// collect applies the options. An option outside known fails the test.
func collect(t testing.TB, server string, opts []Option, known ...string) settings {
	t.Helper()
	s := settings{primaries: 3, replicas: 1, members: 1}
	for _, o := range opts {
		if !slices.Contains(known, o.name) {
			t.Fatalf("testenv: %s does not know the option %s", server, o.name)
		}
		o.set(&s)
	}
	if s.shared && len(opts) > 1 {
		t.Fatalf("testenv: a shared %s takes no other options", server)
	}
	if s.password != "" && s.acl != nil {
		t.Fatal("testenv: Password and ACL exclude each other")
	}
	return s
}
