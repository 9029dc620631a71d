package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A terminal is a pty and the output that was written to it.
type terminal struct {
	master, slave *os.File
	mu            sync.Mutex
	text          strings.Builder
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pty: ", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip("no pty: ", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip("no pty: ", err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pty: ", err)
	}
	term := &terminal{master: master, slave: slave}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			term.mu.Lock()
			term.text.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { slave.Close(); master.Close() })
	return term
}

// shown returns the output so far.
func (w *terminal) shown() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *terminal) shows(s string) func() bool {
	return func() bool { return strings.Contains(w.shown(), s) }
}

// start runs distlock on the terminal.
func (w *terminal) start(t *testing.T, store string, args ...string) *exec.Cmd {
	t.Helper()
	return w.run(t, store, "distlock", args...)
}

func (w *terminal) run(t *testing.T, store, program string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "DISTLOCK_STORE="+store, "XDG_CONFIG_HOME="+t.TempDir(), "TERM=xterm")
	c.Stdin, c.Stdout, c.Stderr = w.slave, w.slave, w.slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

func TestRun_terminal_waitingLine(t *testing.T) {
	t.Parallel()
	store := sqliteStore(t)
	if code := start(t, store, "acquire", "deploy", "--holder", "ci-3", "--ttl", "10m").code(t); code != 0 {
		t.Fatal(code)
	}
	for range 2 { // the same holder as on the terminal, but other owners
		start(t, store, "run", "deploy", "--holder", "ci-4", "true")
	}
	eventually(t, "two in the queue", func() bool {
		ls := start(t, store, "ls", "deploy")
		ls.code(t)
		return strings.Count(ls.out.String(), "waiting") == 2
	})
	w := newTerminal(t)
	c := w.start(t, store, "run", "deploy", "--holder", "ci-4", "true")
	line := regexp.MustCompile(`\rwaiting for deploy ([0-9]+s): held by ci-3 for [0-9]+m?s \(fence [0-9]+\), 2 ahead\x1b`)
	eventually(t, "the line, and rewritten after a second", func() bool {
		shown := line.FindAllStringSubmatch(w.shown(), -1)
		return len(shown) > 1 && shown[0][1] != shown[len(shown)-1][1]
	})
	_, _ = w.master.Write([]byte{3}) // Ctrl-C
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Error("Ctrl-C while waiting:", code)
	}
	if w.shows("\n")() {
		t.Errorf("the line was not rewritten in place: %q", w.shown())
	}
}

// Ctrl-C reaches the child once, from the terminal, and run waits for the child.
func TestRun_terminal_interrupt(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	c := w.start(t, "memory:", "run", "a", "-c", `n=0; trap 'n=$((n+1))' INT; echo up; while test $n = 0; do sleep 0.05; done; `+
		`for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done; echo "got $n"; exit 3`)
	eventually(t, "the child runs", w.shows("up"))
	_, _ = w.master.Write([]byte{3})
	eventually(t, "the child counts", w.shows("got "))
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 3 || !w.shows("got 1")() {
		t.Errorf("%d %q", code, w.shown())
	}
}

func TestBreak_terminal_confirms(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]int{"a\n": 0, "b\n": exitUsage} {
		store := sqliteStore(t)
		if code := start(t, store, "acquire", "a", "--holder", "me").code(t); code != 0 {
			t.Fatal(code)
		}
		w := newTerminal(t)
		c := w.start(t, store, "break", "a", "--reason", "test")
		eventually(t, "the question", w.shows("type the name again"))
		_, _ = w.master.WriteString(typed)
		_ = c.Wait()
		if code := c.ProcessState.ExitCode(); code != want || !w.shows("held by me")() {
			t.Errorf("%q: %d %q", typed, code, w.shown())
		}
	}
}
