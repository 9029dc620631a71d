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

// sqliteStore returns the URL of a file that only this test uses.
func sqliteStore(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "locks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return "sqlite://" + filepath.Join(dir, "a.db")
}

// free fails the test unless the lock can be acquired at once.
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

// gone reports whether a process has ended. A zombie has ended.
func gone(pid int) func() bool {
	return func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if runtime.GOOS != "linux" {
			return syscall.Kill(pid, 0) != nil
		}
		return err != nil || strings.Contains(string(stat), ") Z ")
	}
}

var forwardedSignals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// A command that handles a signal receives it as often as it is sent, and ends when it wants. run
// holds the lock until then.
func TestRun_signal_handled(t *testing.T) {
	for name, sig := range forwardedSignals {
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
				t.Error("the lock was released while the command ran")
			}
			_ = p.Process.Signal(sig)
			// The shell prints a line about the sleep that the signal to the group ended.
			if code := p.code(t); code != 5 || strings.Contains(p.err.String(), "distlock:") {
				t.Error(code, p.err.String())
			}
			free(t, store, "a")
		})
	}
}

// A signal ends a command that does not handle it, and the exit code has the number of the signal.
func TestRun_signal_unhandled(t *testing.T) {
	for name, sig := range forwardedSignals {
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

// A waiter that is interrupted, even twice, leaves the queue.
func TestRun_signal_waiting(t *testing.T) {
	for name, sig := range forwardedSignals {
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
			list := func() string {
				ls := start(t, store, "ls", "a")
				ls.code(t)
				return ls.out.String()
			}
			eventually(t, "it waits", func() bool { return strings.Contains(list(), "waiting") })
			_ = p.Process.Signal(sig)
			_ = p.Process.Signal(sig)
			if code := p.code(t); code != exitSignal+int(sig) || p.err.Len() > 0 {
				t.Error(code, p.err.String())
			}
			if left := list(); strings.Contains(left, "waiting") {
				t.Error("it is still in the queue:\n", left)
			}
		})
	}
}

// If distlock is killed, the command ends too, but not the processes that the command has started.
// The next waiter gets the lock when the TTL ends.
func TestRun_signal_kill(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	t.Parallel()
	const ttl = 2 * time.Second
	store, dir := sqliteStore(t), t.TempDir()
	up, grandchild := filepath.Join(dir, "up"), filepath.Join(dir, "grandchild")
	ticks, rival := filepath.Join(dir, "ticks"), filepath.Join(dir, "rival")
	p := start(t, store, "run", "--ttl", ttl.String(), "a", "-c", "echo $$ >"+up+
		"; sleep 60 >/dev/null 2>&1 & echo $! >"+grandchild+"; while :; do date +%s%N >>"+ticks+"; sleep 0.01; done")
	eventually(t, "the child runs", exists(ticks))
	r := start(t, store, "run", "a", "-c", "date +%s%N >"+rival)
	_ = p.Process.Kill()
	killed, watch := time.Now(), testenv.NewStopwatch(t)
	eventually(t, "the child is gone", gone(number(t, up)))
	if gone(number(t, grandchild))() {
		t.Error("the process that the command started has ended too: docs/cli.md says that it goes on")
	} else {
		_ = syscall.Kill(number(t, grandchild), syscall.SIGKILL)
	}
	if code := r.code(t); code != 0 {
		t.Fatal(code, r.err.String())
	}
	ran := watch.Elapsed() // until the rival has ended
	began, last := lastTime(t, rival), lastTime(t, ticks)
	if !began.After(last) {
		t.Errorf("the child was seen %v after the rival began", last.Sub(began))
	}
	if waited := min(began.Sub(killed), ran); waited > ttl+time.Second {
		t.Errorf("the rival began %v after the kill, want at most the TTL of %v and a second", waited, ttl)
	}
	t.Logf("killed, the child's last sign after %v, the rival after %v", last.Sub(killed), began.Sub(killed))
}

// If distlock alone is stopped by SIGSTOP, it cannot stop the command: the command still runs when
// the rival begins. Only the fencing token protects, which is larger for the rival. When distlock
// continues, it ends the command and reports the loss.
func TestRun_signal_stop(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("date has no nanoseconds here")
	}
	t.Parallel()
	store, dir := sqliteStore(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	p := start(t, store, "run", "--ttl", "3s", "--grace", "300ms", "a", "-c", "echo $$ >"+file("up")+
		"; echo $DISTLOCK_LOCK_FENCE >"+file("fence")+"; while :; do date +%s%N >>"+file("ticks")+"; sleep 0.01; done")
	eventually(t, "the child runs", exists(file("ticks")))
	r := start(t, store, "run", "a", "-c", "date +%s%N >"+file("rival")+
		"; echo $DISTLOCK_LOCK_FENCE >"+file("next")+"; sleep 0.5")
	_ = p.Process.Signal(syscall.SIGSTOP)
	eventually(t, "the rival begins", exists(file("next")))
	eventually(t, "the child runs at the same time", func() bool {
		return lastTime(t, file("ticks")).After(lastTime(t, file("rival")))
	})
	_ = p.Process.Signal(syscall.SIGCONT)
	if code := p.code(t); code != exitLost {
		t.Error(code, p.err.String())
	}
	eventually(t, "the child is gone", gone(number(t, file("up"))))
	if was, is := number(t, file("fence")), number(t, file("next")); is <= was {
		t.Errorf("the fencing token of the rival is %d, that of the late holder %d", is, was)
	}
	if code := r.code(t); code != 0 {
		t.Error("the rival:", code, r.err.String())
	}
}
