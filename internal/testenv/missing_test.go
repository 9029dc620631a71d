package testenv_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// childVariable makes TestChild do something, in a test binary that a test started.
const childVariable = "TESTENV_CHILD"

// TestChild is run by other tests in a process of its own. It does nothing otherwise.
func TestChild(t *testing.T) {
	switch os.Getenv(childVariable) {
	case "":
		t.Skip("only for other tests")
	case "redis":
		testenv.Redis(t)
	case "shared":
		testenv.Redis(t, testenv.Shared())
		testenv.Redis(t, testenv.Shared()) // not reached where it is missing
	case "postgres":
		testenv.Postgres(t)
	case "pgbouncer":
		testenv.PgBouncer(t, nil, testenv.PoolSession)
	case "cluster":
		testenv.RedisCluster(t)
	case "sentinel":
		testenv.Sentinel(t)
	case "etcd":
		testenv.Etcd(t)
	case "bad config":
		testenv.Redis(t, testenv.Config("no-such-directive 1"))
	case "bad option":
		testenv.Postgres(t, testenv.AOF())
	case "kill shared":
		testenv.Redis(t, testenv.Shared()).Kill()
	case "hang":
		r := testenv.Redis(t)
		p := testenv.Postgres(t)
		fmt.Println("pids", r.PID(), p.PID(), filepath.Dir(r.LogPath()), filepath.Dir(p.LogPath()))
		select {}
	}
}

// child runs TestChild in another process, and returns its output and whether it passed.
func child(t *testing.T, what string, env ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := childCommand(ctx, t, what, env...).CombinedOutput()
	return string(out), err == nil
}

func childCommand(ctx context.Context, t *testing.T, what string, env ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), "CI=", "DISTLOCK_REQUIRE_SERVERS=", "DISTLOCK_TEST_REDIS=",
		"DISTLOCK_TEST_POSTGRES=", childVariable+"="+what)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

func TestMissing(t *testing.T) {
	t.Parallel()
	for what, install := range map[string]string{
		"redis":     "apt-get install redis-server",
		"shared":    "apt-get install redis-server",
		"cluster":   "apt-get install redis-server",
		"sentinel":  "apt-get install redis-server",
		"postgres":  "apt-get install postgresql",
		"pgbouncer": "apt-get install pgbouncer",
		"etcd":      "go.etcd.io/etcd",
	} {
		nowhere := []string{"DISTLOCK_TEST_PATH=" + t.TempDir(), "DISTLOCK_ETCD="}
		with := func(env ...string) []string { return append(env, nowhere...) }
		for _, c := range []struct {
			name string
			env  []string
			pass bool
		}{
			{"skips", with(), true},
			{"fails in CI", with("CI=true"), false},
			{"fails if required", with("DISTLOCK_REQUIRE_SERVERS=1"), false},
			{"skips in CI without servers", with("CI=true", "DISTLOCK_REQUIRE_SERVERS=0"), true},
		} {
			t.Run(what+" "+c.name, func(t *testing.T) {
				out, passed := child(t, what, c.env...)
				is(t, passed, c.pass)
				is(t, strings.Contains(out, "--- SKIP"), c.pass)
				is(t, strings.Contains(out, "--- FAIL"), !c.pass)
				is(t, strings.Contains(out, install), true)
				if t.Failed() {
					t.Log(out)
				}
			})
		}
	}
}

func TestMissing_emptyPath(t *testing.T) {
	t.Parallel()
	out, passed := child(t, "redis", "PATH=")
	if !passed || !strings.Contains(out, "SKIPPED, NOTHING WAS TESTED: no redis-server") {
		t.Error(out)
	}
	if out, passed := child(t, "redis", "PATH=", "CI=true"); passed {
		t.Error(out)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	testenv.Redis(t, testenv.Shared()) // or there is nothing to see
	for _, c := range []struct {
		name, want string
		env        []string
	}{
		{name: "bad config", want: "Bad directive or wrong number of arguments"},
		{name: "bad option", want: "Postgres does not know the option AOF"},
		{name: "kill shared", want: "it is shared with other tests"},
		{name: "shared", want: "names does not answer", env: []string{"DISTLOCK_TEST_REDIS=redis://127.0.0.1:1"}},
		{name: "shared", want: "DISTLOCK_TEST_REDIS is not redis://", env: []string{"DISTLOCK_TEST_REDIS=:s3cret:"}},
		{name: "etcd", want: "DISTLOCK_ETCD", env: []string{"DISTLOCK_ETCD=/no/such/etcd"}},
	} {
		t.Run(c.want, func(t *testing.T) {
			out, passed := child(t, c.name, c.env...)
			if passed || !strings.Contains(out, c.want) || strings.Contains(out, "s3cret") {
				t.Error(out)
			}
		})
	}
}

func TestShared_environment(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.Password("pw"))
	out, passed := child(t, "shared", "DISTLOCK_TEST_REDIS="+r.URL, "DISTLOCK_TEST_PATH=/nowhere")
	if !passed || strings.Contains(out, "SKIP") {
		t.Error(out)
	}
	is(t, do(t, r, "PING"), "PONG") // the child did not stop it
}

// A killed test binary takes its servers with it, on Linux.
func TestKilledBinary(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("servers outlive a killed test binary on this system")
	}
	testenv.Postgres(t, testenv.Shared()) // skips where there is none
	cmd := childCommand(t.Context(), t, "hang")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []string
	for in := bufio.NewScanner(out); in.Scan(); {
		if f := strings.Fields(in.Text()); len(f) == 5 && f[0] == "pids" {
			pids = f[1:3]
			defer os.RemoveAll(f[3])
			defer os.RemoveAll(f[4])
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	is(t, len(pids), 2)
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, 5*time.Second, "the server dies with its test", func() bool { return gone(pid) })
	}
}

// gone tells whether a process has ended. Its parent may not have asked for it yet.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}
