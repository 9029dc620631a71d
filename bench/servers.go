package main

import (
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
	env, err := newEnv(later)
	if err != nil {
		return nil, err
	}
	err = env.do(func() {
		for range n {
			addrs = append(addrs, testenv.Redis(env).Addr)
		}
	})
	return addrs, err
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

// Skip fails: without servers there is nothing to measure.
func (e *env) Skip(args ...any) { e.Fatal(fmt.Sprint(args...)) }

// Skipf fails as Skip does.
func (e *env) Skipf(format string, args ...any) { e.Fatalf(format, args...) }
