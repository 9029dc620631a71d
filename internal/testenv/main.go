package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"
)

// A Runner runs the tests of a package. It has the Run method of [testing.M], so other wrappers of
// TestMain accept it.
type Runner struct{ m interface{ Run() int } }

// Main returns the runner for TestMain:
//
//	os.Exit(testenv.Main(m, nil).Run())
//	goleak.VerifyTestMain(testenv.Main(m, roles))
//
// In a process that [Helper] started, Main does not return: it runs the role and exits.
func Main(m interface{ Run() int }, roles Roles) *Runner {
	roles.play()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.allowed = true
	return &Runner{m}
}

// Run runs the tests, stops the shared servers, and returns the exit code.
func (r *Runner) Run() int {
	HandleIgnored()
	code := r.m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv: shared servers:", err)
		return cmp.Or(code, 1)
	}
	return code
}

// shared are the servers of [Shared], one of each kind. They belong to the test binary.
var shared sharedServers

type sharedServers struct {
	mu       sync.Mutex
	allowed  bool // Main will stop them
	group    group
	redis    *RedisServer
	postgres *PostgresServer
	mariadb  *MariaDBServer
	failed   map[string]error // by kind: a failed start is not retried
}

// start calls f once for each kind of server.
func (s *sharedServers) start(kind string, f func(*group) error) error {
	if !s.allowed {
		return errors.New("Shared needs testenv.Main in TestMain, which stops the server")
	}
	if err, ok := s.failed[kind]; ok {
		return err
	}
	g, err := build(f)
	s.group = append(s.group, g...)
	if s.failed == nil {
		s.failed = map[string]error{}
	}
	s.failed[kind] = err
	return err
}

func (s *sharedServers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, server := range s.group {
		errs = append(errs, server.discard())
	}
	s.group, s.failed, s.allowed = nil, nil, false
	return errors.Join(errs...)
}

// view returns the shared server for one test.
func (s *Server) view(t testing.TB) *Server {
	v := &Server{Addr: s.Addr, URL: s.URL}
	v.name, v.tb, v.log = s.name, t, s.log
	return v
}

func sharedRedis(t testing.TB) *RedisServer {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	check(t, shared.start("redis", func(g *group) (err error) {
		if raw := os.Getenv("DISTLOCK_TEST_REDIS"); raw != "" {
			shared.redis, err = redisAt(raw)
			return err
		}
		shared.redis, err = startRedis(g, settings{})
		return err
	}))
	r := *shared.redis
	r.Server = r.Server.view(t)
	return &r
}

// redisAt returns a server that was started outside the tests.
func redisAt(raw string) (*RedisServer, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "redis" || u.Host == "" {
		return nil, errors.New("DISTLOCK_TEST_REDIS is not redis://[:password@]host[:port][/database]")
	}
	r := &RedisServer{Server: foreign("redis", u, raw, "6379")}
	r.password, _ = u.User.Password()
	if _, err := r.Do(context.Background(), "PING"); err != nil {
		return nil, fmt.Errorf("the Redis that DISTLOCK_TEST_REDIS names does not answer: %w", err)
	}
	return r, nil
}

func sharedPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	check(t, shared.start("postgres", func(g *group) (err error) {
		if raw := os.Getenv("DISTLOCK_TEST_POSTGRES"); raw != "" {
			shared.postgres, err = postgresAt(raw)
			return err
		}
		shared.postgres, err = startPostgres(g, settings{})
		return err
	}))
	p := *shared.postgres
	p.Server = p.Server.view(t)
	return &p
}

// postgresAt returns a server that was started outside the tests.
func postgresAt(raw string) (*PostgresServer, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Host == "" {
		return nil, errors.New("DISTLOCK_TEST_POSTGRES is not postgres://user[:password]@host[:port]/database")
	}
	p := &PostgresServer{Server: foreign("postgres", u, raw, "5432")}
	p.own.password, _ = u.User.Password() // for a PgBouncer in front of the server
	if _, err := p.Query(context.Background(), "select 1"); err != nil {
		return nil, fmt.Errorf("the PostgreSQL that DISTLOCK_TEST_POSTGRES names does not answer: %w", err)
	}
	return p, nil
}

func foreign(name string, u *url.URL, raw, port string) *Server {
	s := &Server{Addr: net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)), URL: raw}
	s.name = name
	return s
}
