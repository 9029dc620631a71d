package testenv_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Main(m, testenv.Roles{
		"echo": echo, "dial": playDial,
	}))
}

// echo is a role: it writes its arguments, then every line that it reads, and ends with code 7.
func echo(args []string) int {
	fmt.Println("ready", args)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "end" {
			fmt.Fprintln(os.Stderr, "ending")
			return 7
		}
		fmt.Println("heard", in.Text())
	}
	if in.Err() != nil {
		return 1
	}
	return 0
}

// eventually polls until f returns true. It is for servers, whose time is real.
func eventually(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// do sends a command to Redis, which must succeed, and returns the reply as text.
func do(t *testing.T, r *testenv.RedisServer, args ...string) string {
	t.Helper()
	v, err := r.Do(t.Context(), args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return fmt.Sprint(v)
}

// query runs a query in PostgreSQL, which must succeed.
func query(t *testing.T, p interface {
	Query(context.Context, string) ([][]string, error)
}, sql string,
) [][]string {
	t.Helper()
	rows, err := p.Query(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// is checks a value.
func is[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
