package foreign

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// A need returns the path of a program on this machine, or an error that says how to get it.
type need = func() (string, error)

// A kind is a lock client other than distlock.
type kind struct {
	name  string
	needs []need // in addition to Go
	start func(t *testing.T, host, port string) *testenv.HelperProcess
}

var kinds = []kind{
	{"redislock", nil, func(t *testing.T, host, port string) *testenv.HelperProcess {
		return testenv.Helper(t, "redislock", host, port)
	}},
	{"redsync", nil, func(t *testing.T, host, port string) *testenv.HelperProcess {
		return testenv.Helper(t, "redsync", host, port)
	}},
	{"redis-py", []need{python}, func(t *testing.T, host, port string) *testenv.HelperProcess {
		return testenv.Helper(t, "program", have(t, python), have(t, script), host, port)
	}},
	{"redlock-4", []need{node, packages}, func(t *testing.T, host, port string) *testenv.HelperProcess {
		return testenv.Helper(t, "program", have(t, node), have(t, packages), "redlock4", host, port)
	}},
	{"redlock-5", []need{node, packages}, func(t *testing.T, host, port string) *testenv.HelperProcess {
		return testenv.Helper(t, "program", have(t, node), have(t, packages), "redlock5", host, port)
	}},
}

// playProgram is a role: the process becomes the program of its first argument. So a program in
// another language ends with the test, like every helper.
func playProgram(args []string) int {
	err := syscall.Exec(args[0], args, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	return 126
}

// The programs for the drivers in other languages are searched once.
var (
	python   = sync.OnceValues(findPython)
	script   = sync.OnceValues(func() (string, error) { return filepath.Abs("testdata/driver.py") })
	node     = sync.OnceValues(findNode)
	packages = sync.OnceValues(install)
)

// have returns the path of a needed program, or skips the test. In CI it fails the test.
func have(t *testing.T, find need) string {
	t.Helper()
	path, err := find()
	if err == nil {
		return path
	}
	required := os.Getenv("CI") == "true"
	switch os.Getenv("DISTLOCK_REQUIRE_SERVERS") {
	case "1", "true":
		required = true
	case "0", "false":
		required = false
	}
	if required {
		t.Fatal(err)
	}
	t.Skipf("SKIPPED, NOTHING WAS TESTED: %v", err)
	return ""
}

// findPython returns a Python that has redis-py. Debian's Python comes first, because another one
// in PATH does not see Debian's packages.
func findPython() (string, error) {
	var errs []error
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err == nil {
			var out []byte
			if out, err = exec.Command(path, "-c", "import redis.lock").CombinedOutput(); err == nil {
				return path, nil
			}
			err = fmt.Errorf("%s: %w: %s", path, err, out)
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no Python with redis-py; to get it: scripts/servers --all\n%w",
		errors.Join(errs...))
}

func findNode() (string, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("no Node.js; to get it on Debian: apt-get install nodejs npm: %w", err)
	}
	return path, nil
}

// install installs the packages of the Node driver in the tools folder of the project, if they are
// not there yet, and returns the path of the driver next to them. The name of the folder has a hash
// of its sources.
func install() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", fmt.Errorf("no npm to install the Node clients with: %w", err)
	}
	// Helpers run in their own folders, so the path must be absolute.
	tools, err := filepath.Abs("../../.tools")
	if err != nil {
		return "", err
	}
	source := os.DirFS("testdata/node")
	hash := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", "driver.js"} {
		text, err := fs.ReadFile(source, name)
		if err != nil {
			return "", err
		}
		hash.Write(text)
	}
	target := filepath.Join(tools, fmt.Sprintf("node-%.8x", hash.Sum(nil)))
	driver := filepath.Join(target, "driver.js")
	if _, err := os.Stat(driver); err == nil {
		return driver, nil
	}
	if err := os.MkdirAll(tools, 0o777); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(tools, "node-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := os.CopyFS(temp, source); err != nil {
		return "", err
	}
	cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = temp
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the Node clients could not be installed: npm ci: %w\n%s", err, out)
	}
	// The rename makes the installation visible only when it is complete. Another test run may make
	// the same one at the same time.
	if err := os.Rename(temp, target); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return driver, nil
}

// A client is a lock client other than distlock, in its own process.
type client struct {
	*testenv.HelperProcess
	t    *testing.T
	kind string
}

func start(t *testing.T, k kind, srv *testenv.RedisServer) *client {
	host, port, err := net.SplitHostPort(srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return &client{k.start(t, host, port), t, k.name}
}

// in returns the client for a subtest.
func (c *client) in(t *testing.T) *client {
	if c == nil {
		return nil
	}
	return &client{c.HelperProcess, t, c.kind}
}

// send sends a command, and does not wait for the answer.
func (c *client) send(verb, key string, args ...any) {
	c.t.Helper()
	words := []string{verb, key}
	for _, a := range args {
		if d, ok := a.(time.Duration); ok {
			a = d.Milliseconds()
		}
		words = append(words, fmt.Sprint(a))
	}
	c.Say(strings.Join(words, " "))
}

// call sends a command, and returns the answer.
func (c *client) call(verb, key string, args ...any) string {
	c.t.Helper()
	c.send(verb, key, args...)
	return c.answer()
}

// answer returns the next answer of the client.
func (c *client) answer() string {
	c.t.Helper()
	line, err := c.LineWithin(time.Minute)
	if err != nil {
		c.t.Fatalf("%s does not answer: %v\n%s", c.kind, err, c.Log())
	}
	return line
}

// must sends a command, and fails the test if the answer is not the wanted one.
func (c *client) must(want, verb, key string, args ...any) {
	c.t.Helper()
	if got := c.call(verb, key, args...); got != want {
		c.t.Fatalf("%s: %s: got %q, want %q", c.kind, verb, got, want)
	}
}

// silent fails the test if the client has already answered.
func (c *client) silent() {
	c.t.Helper()
	if line, err := c.LineWithin(time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%s answered %q (%v) too early", c.kind, line, err)
	}
}
