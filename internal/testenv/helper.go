package testenv

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	roleVariable = "DISTLOCK_TEST_ROLE"
	argsFollow   = "-" // the arguments are the first line of standard input
	lineLimit    = 30 * time.Second
)

// Roles are the functions that [Helper] can run in a separate process, by name. Pass them to
// [Main]. The return value of a role is the exit code.
type Roles map[string]func(args []string) int

// play runs the role of this process, if it has one, and exits.
func (r Roles) play() {
	name, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	// The role's own children are no helpers unless they are started as helpers.
	os.Unsetenv(roleVariable)
	role, ok := r[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "testenv: no role %q\n", name)
		os.Exit(64)
	}
	args := os.Args[1:]
	if len(args) == 1 && args[0] == argsFollow {
		var err error
		if args, err = readArgs(os.Stdin); err != nil {
			fmt.Fprintf(os.Stderr, "testenv: the arguments of role %q: %v\n", name, err)
			os.Exit(64)
		}
	}
	os.Exit(role(args))
}

// readArgs reads the arguments of a helper: the first line of standard input, and not a byte more.
// The remaining input is for the role, or for the program that the role executes.
func readArgs(in io.Reader) (args []string, err error) {
	var line []byte
	for b := make([]byte, 1); b[0] != '\n'; line = append(line, b[0]) {
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
	}
	return args, json.Unmarshal(line, &args)
}

// A HelperProcess is the test binary in a role. It exchanges lines with the test through its
// standard input and output. Its standard error is its log.
type HelperProcess struct {
	Process
	in      *os.File
	out     *os.File
	read    *bufio.Reader
	partial string // the beginning of a line whose end has not arrived
}

// Helper starts the test binary as a child process in the role. The process ends with the test. The
// arguments may be URLs with passwords. They are passed on standard input, since every user of the
// machine sees the command line of a process.
func Helper(t testing.TB, role string, args ...string) *HelperProcess {
	t.Helper()
	h := &HelperProcess{}
	h.name, h.tb, h.log = "helper "+role, t, filepath.Join(t.TempDir(), "log")
	h.stop = syscall.SIGTERM
	check(t, h.start(role, args))
	t.Cleanup(func() {
		if err := errors.Join(h.close(os.Kill), h.in.Close(), h.out.Close()); err != nil {
			t.Errorf("testenv: %s: %v", h.name, err)
		}
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", h.name, h.Log())
		}
	})
	return h
}

func (h *HelperProcess) start(role string, args []string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, childIn.Close(), in.Close())
	}
	// The child's ends are always closed here, so that the test sees the end of the child's output.
	defer childIn.Close()
	defer childOut.Close()
	cmd := exec.Command(program, argsFollow)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stdin, cmd.Stdout = childIn, childOut
	if err := h.begin(cmd, os.Kill, nil); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	h.in, h.out, h.read = in, out, bufio.NewReader(out)
	return json.NewEncoder(in).Encode(append([]string{}, args...))
}

// Actor returns a command that runs the test binary in a role, inside a network if n is not nil.
// The caller starts and ends the command. The process dies with the thread that starts it. Every
// user of the machine sees the arguments: pass secrets on standard input.
func Actor(n *Network, role string, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	if n != nil {
		cmd = n.Command(program, args...)
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	setAttributes(cmd, os.Kill, nil)
	return cmd, shown(cmd)
}

// Say writes a line to the helper.
func (h *HelperProcess) Say(line string) {
	h.tb.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.tb.Errorf("testenv: %s: say %q: %v", h.name, line, err)
	}
}

// Line returns the next line that the helper writes. The test fails if none arrives within 30 s.
// Only the test's own goroutine may call it.
func (h *HelperProcess) Line() string {
	h.tb.Helper()
	line, err := h.LineWithin(lineLimit)
	if err != nil {
		h.tb.Fatalf("testenv: %s: no line: %v; the end of its log:\n%s", h.name, err, h.Log())
	}
	return line
}

// LineWithin returns the next line, [os.ErrDeadlineExceeded] if none arrives in time, or [io.EOF]
// if none will arrive. Pipes on Windows have no deadlines: there LineWithin waits for a line or the
// end.
func (h *HelperProcess) LineWithin(d time.Duration) (string, error) {
	if err := h.out.SetReadDeadline(time.Now().Add(d)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return "", err
	}
	part, err := h.read.ReadString('\n')
	h.partial += part
	if err != nil {
		return "", err
	}
	line := strings.TrimRight(h.partial, "\r\n")
	h.partial = ""
	return line, nil
}

// Wait waits until the helper has ended and returns its exit code, or -1 if a signal ended it.
func (h *HelperProcess) Wait() int {
	h.mu.Lock()
	r := h.run
	h.mu.Unlock()
	<-r.done
	return r.cmd.ProcessState.ExitCode()
}
