//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// A program is a distlock command in a process of its own.
type program struct {
	*exec.Cmd
	out, err syncBuffer
}

func start(t *testing.T, store string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command("distlock", args...)}
	p.Env = append(os.Environ(), "DISTLOCK_STORE="+store, "XDG_CONFIG_HOME="+t.TempDir())
	p.Stdout, p.Stderr = &p.out, &p.err
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.WaitDelay = time.Second
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// code waits until the program has ended.
func (p *program) code(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

// eventually waits until f is true, for up to 20 s.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	within(t, 20*time.Second, what, f)
}

func within(t *testing.T, d time.Duration, what string, f func() bool) {
	t.Helper()
	for began := time.Now(); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > d {
			t.Fatal("never: " + what)
		}
	}
}

func exists(file string) func() bool {
	return func() bool { info, err := os.Stat(file); return err == nil && info.Size() > 0 }
}

// lastTime returns the last complete line of a file, which is a time in nanoseconds.
func lastTime(t *testing.T, file string) time.Time {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	n, err := strconv.ParseInt(lines[max(len(lines)-2, 0)], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, n)
}

// The store becomes unreachable while a command runs that ignores TERM. The command must end before
// a rival can acquire the lock. The rival still reaches the store, or reaches it as soon as it
// answers again.
func TestRun_lost_childIsGoneBeforeTheRival(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("date has no nanoseconds here")
	}
	// The test measures time, so no other test runs at the same time.
	for name, outage := range map[string]func(*testing.T, *testenv.RedisServer, *testenv.ProxyServer){
		"cut": func(_ *testing.T, _ *testenv.RedisServer, p *testenv.ProxyServer) { p.Cut(testenv.Both) },
		"replies cut": func(_ *testing.T, _ *testenv.RedisServer, p *testenv.ProxyServer) {
			p.Cut(testenv.ToClient) // renewals arrive, but their replies do not
		},
		"paused": func(_ *testing.T, r *testenv.RedisServer, _ *testenv.ProxyServer) {
			r.Pause()
			time.AfterFunc(2500*time.Millisecond, r.Resume) // the claim of 2.4 s ends meanwhile
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var grace time.Duration
			// The child must end in time in every try. The time between TERM and KILL can only be
			// measured if the machine lets the child run, which must be the case in one of three
			// tries.
			for try := 0; try < 3 && grace < 250*time.Millisecond && !t.Failed(); try++ {
				r := testenv.Redis(t)
				proxy := testenv.Proxy(t, r.Addr)
				grace = lose(t, r, proxy.Addr, func() { outage(t, r, proxy) })
			}
			if grace < 250*time.Millisecond {
				t.Errorf("the child had %v between TERM and KILL, want about 500ms", grace)
			}
		})
	}
}

// lose runs a command until its store becomes unreachable. It checks that the last sign of the
// command is before the start of the rival, and returns the time between TERM and the last sign.
func lose(t *testing.T, r *testenv.RedisServer, addr string, outage func()) time.Duration {
	dir := t.TempDir()
	ticks, term, rivals := filepath.Join(dir, "ticks"), filepath.Join(dir, "term"), filepath.Join(dir, "rival")
	p := start(t, "redis://"+addr, "run", "--ttl", "2400ms", "--grace", "500ms",
		"--report", filepath.Join(dir, "report"), "a", "-c",
		"trap 'date +%s%N >>"+term+"' TERM; while :; do date +%s%N >>"+ticks+"; sleep 0.01; done")
	eventually(t, "the child runs", exists(ticks))
	rival := start(t, "redis://"+r.Addr, "run", "a", "-c", "date +%s%N >>"+rivals)
	outage()
	// The shell may print a line about its own child.
	if code := p.code(t); code != exitLost || strings.Count(p.err.String(), "distlock: a: the lock ") != 1 {
		t.Error(code, p.err.String())
	}
	if code := rival.code(t); code != 0 {
		t.Fatal(code, rival.err.String())
	}
	gap := lastTime(t, rivals).Sub(lastTime(t, ticks))
	if gap <= 0 {
		t.Errorf("the child was seen %v after the rival began", -gap)
	}
	// The shell writes the time of TERM, if the machine lets it run.
	grace := time.Duration(0)
	if exists(term)() {
		grace = lastTime(t, ticks).Sub(lastTime(t, term))
	}
	t.Logf("TERM %v before the child's last sign, the rival %v after it", grace, gap)
	if text, _ := os.ReadFile(filepath.Join(dir, "report")); !strings.Contains(string(text), `"lost":true,"exit":79`) {
		t.Errorf("report: %s", text)
	}
	return grace
}

// A claim that the store hands off to the next waiter has a short TTL at first. run must not stop
// the command because of that.
func TestRun_handedOver(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	up := filepath.Join(t.TempDir(), "up")
	first := start(t, r.URL, "run", "a", "-c", "echo >"+up+"; sleep 0.5")
	eventually(t, "the first runs", exists(up))
	for range 2 {
		// The grace is longer than the TTL of a queue entry.
		next := start(t, r.URL, "run", "--grace", "10s", "a", "sleep", "0.2")
		if code := next.code(t); code != 0 {
			t.Error(code, next.err.String())
		}
	}
	if code := first.code(t); code != 0 {
		t.Error(code, first.err.String())
	}
}

func TestRun_lost_broken(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	dir := t.TempDir()
	for _, how := range []string{"stop", "warn"} {
		up, end := filepath.Join(dir, how), filepath.Join(dir, how+".end")
		p := start(t, r.URL, "run", "--ttl", "3s", "--grace", "500ms", "--on-lost", how, how, "-c",
			"echo >"+up+"; while ! test -e "+end+"; do sleep 0.02; done; echo survived")
		eventually(t, "the child runs", exists(up))
		if code := start(t, r.URL, "break", how, "--reason", "test", "--yes").code(t); code != 0 {
			t.Fatal(code)
		}
		if how == "warn" {
			time.Sleep(2 * time.Second) // run has noticed the loss by then, and lets the child run
			if err := os.WriteFile(end, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if code := p.code(t); code != exitLost {
			t.Error(how, code, p.err.String())
		}
		if survived := strings.Contains(p.out.String(), "survived"); survived != (how == "warn") || p.err.Len() == 0 {
			t.Error(how, p.out.String(), p.err.String())
		}
	}
}

// If the store cannot be reached when the command ends, and the command ended in time, the exit
// code is that of the command.
func TestRun_storeGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	dir := t.TempDir()
	up, end := filepath.Join(dir, "up"), filepath.Join(dir, "end")
	p := start(t, r.URL, "run", "--ttl", "20s", "a", "-c", "echo >"+up+"; while ! test -e "+end+"; do sleep 0.02; done; exit 3")
	eventually(t, "the child runs", exists(up))
	r.Kill()
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.code(t); code != 3 || !strings.Contains(p.err.String(), "could not be released") {
		t.Error(code, p.err.String())
	}
}

func TestRun_storeGoneBefore(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t, testenv.Password("hunter22"))
	r.Kill()
	p := start(t, r.URL, "run", "a", "true")
	if code := p.code(t); code != exitUnavailable || strings.Contains(p.err.String(), "hunter22") {
		t.Error(code, p.err.String())
	}
}

func TestRun_wrapperKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	t.Parallel()
	up := filepath.Join(t.TempDir(), "up")
	p := start(t, "memory:", "run", "a", "--", "sh", "-c", "echo $$ >"+up+"; exec sleep 60")
	eventually(t, "the child runs", exists(up))
	text, _ := os.ReadFile(up)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Process.Kill()
	eventually(t, "the child is gone", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // a zombie that no process waits for
	})
}

// Signals reach the whole process group, also a grandchild.
func TestRun_group(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up, got := filepath.Join(dir, "up"), filepath.Join(dir, "got")
	p := start(t, "memory:", "run", "a", "-c",
		"trap : TERM; sh -c 'trap \"echo x >"+got+"; exit\" TERM; echo up >"+up+"; while :; do sleep 0.02; done' & wait; wait; exit 4")
	eventually(t, "the grandchild runs", exists(up))
	_ = p.Process.Signal(syscall.SIGTERM)
	if code := p.code(t); code != 4 || !exists(got)() {
		t.Error(code, exists(got)(), p.err.String())
	}
}

// Completion waits 200 ms for a store, not longer.
func TestComplete_silentStore(t *testing.T) {
	r := testenv.Redis(t)
	proxy := testenv.Proxy(t, r.Addr)
	proxy.Cut(testenv.Both)
	t.Setenv("DISTLOCK_STORE", "redis://"+proxy.Addr)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	watch := testenv.NewStopwatch(t)
	var out, errs bytes.Buffer
	// The command runs in this process, because the start and end of a process take time too.
	code := execute(t.Context(), []string{"__complete", "run", ""}, nil, &out, &errs)
	if took := watch.Elapsed(); code != 0 || took > time.Second || !strings.HasPrefix(out.String(), ":") {
		t.Errorf("%v %d %q", took, code, out.String())
	}
}
