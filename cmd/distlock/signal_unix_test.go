//go:build unix

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// sqliteStore is the URL of a file of the test's own.
func sqliteStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "locks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return "sqlite://" + filepath.Join(dir, "a.db")
}

// free fails the test unless the name can be taken at once.
func free(t *testing.T, store, name string) {
	t.Helper()
	if p := start(t, store, "run", "-n", name, "true"); p.code(t) != 0 {
		t.Errorf("%s is not free: %s", name, p.err.String())
	}
}

// number reads a whole number that a child has written.
func number(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone tells whether a process has ended. One whose end nobody has heard of counts.
func gone(pid int) func() bool {
	return func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if runtime.GOOS != "linux" {
			return syscall.Kill(pid, 0) != nil
		}
		return err != nil || strings.Contains(string(stat), ") Z ")
	}
}

var passedOn = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// A command that handles a signal gets it, as often as it is sent, and ends as it likes. The lock is held until then.
func TestRun_signal_handled(t *testing.T) {
	for name, sig := range passedOn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, dir := sqliteStore(t), t.TempDir()
			up, one := filepath.Join(dir, "up"), filepath.Join(dir, "one")
			p := start(t, store, "run", "a", "-c", "n=0; trap 'n=$((n+1)); echo $n >"+one+"; test $n = 2 && exit 5' "+name+
				"; echo >"+up+"; while :; do sleep 0.02; done")
			eventually(t, "the child runs", exists(up))
			_ = p.Process.Signal(sig)
			eventually(t, "the child has the signal", exists(one))
			if rival := start(t, store, "run", "-n", "a", "true"); rival.code(t) != exitBusy {
				t.Error("the lock was given back while the command ran")
			}
			_ = p.Process.Signal(sig)
			// The shell has its own line about the sleep that the group's signal ended.
			if code := p.code(t); code != 5 || strings.Contains(p.err.String(), "distlock:") {
				t.Error(code, p.err.String())
			}
			free(t, store, "a")
		})
	}
}

// A command that does not handle it ends by it, and the exit code says so.
func TestRun_signal_unhandled(t *testing.T) {
	for name, sig := range passedOn {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, dir := sqliteStore(t), t.TempDir()
			up := filepath.Join(dir, "up")
			p := start(t, store, "run", "a", "-c", "ulimit -c 0; echo >"+up+"; exec sleep 60")
			eventually(t, "the child runs", exists(up))
			_ = p.Process.Signal(sig)
			if code := p.code(t); code != exitSignal+int(sig) || p.err.Len() > 0 {
				t.Error(code, p.err.String())
			}
			free(t, store, "a")
		})
	}
}

// Whoever waits and is interrupted, even twice, leaves the line.
func TestRun_signal_waiting(t *testing.T) {
	for name, sig := range passedOn {
		if !ends(sig) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := sqliteStore(t)
			if code := start(t, store, "acquire", "a", "--holder", "x").code(t); code != 0 {
				t.Fatal(code)
			}
			p := start(t, store, "run", "a", "true")
			line := func() string {
				ls := start(t, store, "ls", "a")
				ls.code(t)
				return ls.out.String()
			}
			eventually(t, "it waits", func() bool { return strings.Contains(line(), "waiting") })
			_ = p.Process.Signal(sig)
			_ = p.Process.Signal(sig)
			if code := p.code(t); code != exitSignal+int(sig) || p.err.Len() > 0 {
				t.Error(code, p.err.String())
			}
			if left := line(); strings.Contains(left, "waiting") {
				t.Error("it still stands in line:\n", left)
			}
		})
	}
}

// A wrapper that is killed takes the command along, but not what the command has started, and the lock goes to the next with the end of its TTL.
func TestRun_signal_kill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	t.Parallel()
	const ttl = 2 * time.Second
	store, dir := sqliteStore(t), t.TempDir()
	up, kin, ticks, rival := filepath.Join(dir, "up"), filepath.Join(dir, "kin"), filepath.Join(dir, "ticks"), filepath.Join(dir, "rival")
	p := start(t, store, "run", "--ttl", ttl.String(), "a", "-c", "echo $$ >"+up+"; sleep 60 >/dev/null 2>&1 & echo $! >"+kin+"; while :; do date +%s%N >>"+ticks+"; sleep 0.01; done")
	eventually(t, "the child runs", exists(ticks))
	r := start(t, store, "run", "a", "-c", "date +%s%N >"+rival)
	_ = p.Process.Kill()
	killed, watch := time.Now(), testenv.NewStopwatch(t)
	eventually(t, "the child is gone", gone(number(t, up)))
	if gone(number(t, kin))() {
		t.Error("what the command started has ended too: docs/cli.md says that it goes on")
	} else {
		_ = syscall.Kill(number(t, kin), syscall.SIGKILL)
	}
	if code := r.code(t); code != 0 {
		t.Fatal(code, r.err.String())
	}
	ran := watch.Elapsed() // and has ended
	began, last := lastTime(t, rival), lastTime(t, ticks)
	if !began.After(last) {
		t.Errorf("the child was seen %v after the rival began", last.Sub(began))
	}
	if waited := min(began.Sub(killed), ran); waited > ttl+time.Second {
		t.Errorf("the rival began %v after the kill, want at most the TTL of %v and a second", waited, ttl)
	}
	t.Logf("killed, the child's last sign after %v, the rival after %v", last.Sub(killed), began.Sub(killed))
}

// A wrapper that is stopped alone can stop nobody: the command runs on while the rival begins. What is left is the fence, which
// has risen. When the wrapper goes on, it ends the command and tells of the loss.
func TestRun_signal_stop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("date has no nanoseconds here")
	}
	t.Parallel()
	store, dir := sqliteStore(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	p := start(t, store, "run", "--ttl", "3s", "--grace", "300ms", "a", "-c", "echo $$ >"+file("up")+"; echo $DISTLOCK_LOCK_FENCE >"+file("fence")+
		"; while :; do date +%s%N >>"+file("ticks")+"; sleep 0.01; done")
	eventually(t, "the child runs", exists(file("ticks")))
	r := start(t, store, "run", "a", "-c", "date +%s%N >"+file("rival")+"; echo $DISTLOCK_LOCK_FENCE >"+file("next")+"; sleep 0.5")
	_ = p.Process.Signal(syscall.SIGSTOP)
	eventually(t, "the rival begins", exists(file("next")))
	eventually(t, "the child runs beside it", func() bool { return lastTime(t, file("ticks")).After(lastTime(t, file("rival"))) })
	_ = p.Process.Signal(syscall.SIGCONT)
	if code := p.code(t); code != exitLost {
		t.Error(code, p.err.String())
	}
	eventually(t, "the child is gone", gone(number(t, file("up"))))
	if was, is := number(t, file("fence")), number(t, file("next")); is <= was {
		t.Errorf("the rival's fence is %d, and the late one's %d", is, was)
	}
	if code := r.code(t); code != 0 {
		t.Error("the rival:", code, r.err.String())
	}
}
