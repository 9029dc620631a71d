package testenv_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// childVariable selects what TestChild does, in a test binary that a test started.
const childVariable = "TESTENV_CHILD"

// TestChild is run by other tests in a separate process. Otherwise it does nothing.
func TestChild(t *testing.T) {
	switch os.Getenv(childVariable) {
	case "":
		t.Skip("only for other tests")
	case "all":
		for _, k := range kinds {
			t.Run(k.name, k.start)
		}
	case "redis":
		testenv.Redis(t)
	case "shared":
		testenv.Redis(t, testenv.Shared())
	case "shared postgres":
		query(t, testenv.Postgres(t, testenv.Shared()), "select 1")
	case "shared pooler":
		query(t, testenv.PgBouncer(t, testenv.Postgres(t, testenv.Shared()), testenv.PoolSession), "select 1")
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

// kinds are all programs that can be missing, and the text that the test must then show.
var kinds = []struct {
	name, install string
	start         func(*testing.T)
}{
	{"redis", "apt-get install redis-server", func(t *testing.T) { testenv.Redis(t) }},
	{"shared", "apt-get install redis-server", func(t *testing.T) { testenv.Redis(t, testenv.Shared()) }},
	{"cluster", "apt-get install redis-server", func(t *testing.T) { testenv.RedisCluster(t) }},
	{"sentinel", "apt-get install redis-server", func(t *testing.T) { testenv.Sentinel(t) }},
	{"postgres", "apt-get install postgresql", func(t *testing.T) { testenv.Postgres(t) }},
	{"mariadb", "apt-get install mariadb-server", func(t *testing.T) { testenv.MariaDB(t) }},
	{"sharedpg", "apt-get install postgresql", func(t *testing.T) { testenv.Postgres(t, testenv.Shared()) }},
	{"pgbouncer", "apt-get install pgbouncer", func(t *testing.T) { testenv.PgBouncer(t, nil, testenv.PoolSession) }},
	{"etcd", "scripts/tools path etcd", func(t *testing.T) { testenv.Etcd(t) }},
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
	for _, c := range []struct {
		name, verdict string
		env           []string
	}{
		{name: "skips", verdict: "SKIP"},
		{name: "fails in CI", verdict: "FAIL", env: []string{"CI=true"}},
		{name: "fails if required", verdict: "FAIL", env: []string{"DISTLOCK_REQUIRE_SERVERS=1"}},
		{name: "skips in CI without servers", verdict: "SKIP", env: []string{"CI=true", "DISTLOCK_REQUIRE_SERVERS=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, passed := child(t, "all", append(c.env, "DISTLOCK_TEST_PATH="+t.TempDir(), "DISTLOCK_ETCD=")...)
			is(t, passed, c.verdict == "SKIP")
			// A part begins with a test's start, and contains its verdict and reason.
			parts := strings.Split(out, "=== RUN ")
			for _, k := range kinds {
				part := parts[slices.IndexFunc(parts, func(p string) bool {
					return strings.HasPrefix(strings.TrimSpace(p), "TestChild/"+k.name+"\n")
				})]
				is(t, strings.Contains(part, k.install), true)
				is(t, strings.Count(out, "--- "+c.verdict+": TestChild/"+k.name+" "), 1)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
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
	testenv.Redis(t, testenv.Shared()) // skips if there is no server
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

	p := testenv.Postgres(t, testenv.Password("pw"))
	out, passed = child(t, "shared postgres", "DISTLOCK_TEST_POSTGRES="+p.URL, "DISTLOCK_TEST_PATH=/nowhere")
	if !passed || strings.Contains(out, "SKIP") {
		t.Error(out)
	}
	if out, passed := child(t, "shared pooler", "DISTLOCK_TEST_POSTGRES="+p.URL); !passed {
		t.Error(out)
	}
	query(t, p, "select 1")
}

// On Linux, the servers of a killed test binary end with it.
func TestKilledBinary(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("servers outlive a killed test binary on this system")
	}
	testenv.Postgres(t, testenv.Shared()) // skips if there is no server
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

// gone reports whether a process has ended. Its parent may not have reaped it yet.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}
