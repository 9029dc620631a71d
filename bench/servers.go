package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// servers starts n Redis servers, or uses those of the flag -redis.
func (b *bench) servers(n int, later func(func())) (addrs []string, err error) {
	if b.addrs != nil {
		if len(b.addrs) < n {
			return nil, fmt.Errorf("%d servers are needed, and %d were given", n, len(b.addrs))
		}
		for _, a := range b.addrs[:n] {
			addrs = append(addrs, strings.TrimSuffix(strings.TrimPrefix(a, "redis://"), "/0"))
		}
		return addrs, nil
	}
	return b.startRedis(n, later)
}

// startRedis starts n Redis servers.
func (b *bench) startRedis(n int, later func(func())) (addrs []string, err error) {
	env, err := newEnv(later)
	if err != nil {
		return nil, err
	}
	err = env.do(func() {
		for range n {
			addrs = append(addrs, testenv.Redis(env).Addr)
		}
	})
	if err == nil && b.versions["Redis"] == "" {
		b.noteRedis(addrs[0])
	}
	return addrs, err
}

// noteRedis records the version of a server for the page.
func (b *bench) noteRedis(addr string) {
	var s stack
	defer s.undo()
	if c, err := connect(addr, s.push); err == nil {
		if text, err := c.Do(b.ctx, c.B().Info().Section("server").Build()).ToString(); err == nil {
			b.versions["Redis"] = word(text, "redis_version:")
		}
	}
}

// notePostgres records the version of a server for the page.
func (b *bench) notePostgres(p *testenv.PostgresServer) {
	if rows, err := p.Query(b.ctx, "show server_version"); err == nil {
		b.versions["PostgreSQL"], _, _ = strings.Cut(rows[0][0], " ")
	}
}

// noteMariaDB records the version of a server for the page.
func (b *bench) noteMariaDB(m *testenv.MariaDBServer) {
	if rows, err := m.Query(b.ctx, "select version()"); err == nil {
		b.versions["MariaDB"], _, _ = strings.Cut(rows[0][0], "-")
	}
}

// word returns the word that follows a label in a text.
func word(text, label string) string {
	_, rest, _ := strings.Cut(text, label)
	if fields := strings.Fields(rest); len(fields) > 0 {
		return fields[0]
	}
	return ""
}

// An env replaces a test for the functions that start servers for tests. A failure is returned as
// an error.
type env struct {
	testing.TB // nil: only the methods below are used
	dir        string
	later      func(func())
	failed     []error
}

func newEnv(later func(func())) (*env, error) {
	dir, err := os.MkdirTemp("", "distlock-bench-")
	if err != nil {
		return nil, err
	}
	later(func() { _ = os.RemoveAll(dir) })
	return &env{dir: dir, later: later}, nil
}

// do runs f, which may end with Fatal, and returns the failures.
func (e *env) do(f func()) error {
	done := make(chan struct{})
	go func() { // Fatal ends the goroutine
		defer close(done)
		f()
	}()
	<-done
	return errors.Join(e.failed...)
}

func (e *env) fail(text string) { e.failed = append(e.failed, errors.New(text)) }

// Context returns a context that does not end.
func (e *env) Context() context.Context { return context.Background() }

func (e *env) Helper()                           {}
func (e *env) Name() string                      { return "bench" }
func (e *env) Failed() bool                      { return len(e.failed) > 0 }
func (e *env) TempDir() string                   { return e.dir }
func (e *env) Cleanup(f func())                  { e.later(f) }
func (e *env) Log(...any)                        {}
func (e *env) Logf(string, ...any)               {}
func (e *env) Error(args ...any)                 { e.fail(fmt.Sprint(args...)) }
func (e *env) Errorf(format string, args ...any) { e.fail(fmt.Sprintf(format, args...)) }

// FailNow ends the function that do runs.
func (e *env) FailNow() { runtime.Goexit() }

// Fatal is Error and FailNow.
func (e *env) Fatal(args ...any) {
	e.Error(args...)
	runtime.Goexit()
}

// Fatalf is Errorf and FailNow.
func (e *env) Fatalf(format string, args ...any) {
	e.Errorf(format, args...)
	runtime.Goexit()
}

// errMissing means that a server program is not on this machine.
var errMissing = errors.New("there is nothing to measure")

// Skip fails with errMissing.
func (e *env) Skip(args ...any) {
	e.failed = append(e.failed, fmt.Errorf("%w: %s", errMissing, fmt.Sprint(args...)))
	runtime.Goexit()
}

// Skipf fails as Skip does.
func (e *env) Skipf(format string, args ...any) { e.Skip(fmt.Sprintf(format, args...)) }
