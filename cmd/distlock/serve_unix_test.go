//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process of serve, with a socket from its parent.
func serveProcess(t *testing.T, args ...string) (base string, p *exec.Cmd, log *text) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer l.Close()
	// The shell knows the number of the process that it becomes, as systemd does.
	line := `LISTEN_PID=$$ LISTEN_FDS=1 exec distlock serve --store memory: --demo --listen systemd "$@"`
	p = exec.CommandContext(t.Context(), "sh", append([]string{"-c", line, "sh"}, args...)...)
	p.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	p.ExtraFiles = []*os.File{f}
	log = &text{}
	p.Stderr = log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	return "http://" + l.Addr().String(), p, log
}

// post makes a call of the API.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// A server serves the socket of its parent. After TERM it is not ready and refuses new locks, and
// renews and releases those that there are. A second TERM ends it at once.
func TestServe_signals(t *testing.T) {
	t.Parallel()
	base, p, log := serveProcess(t, "--drain", "10m")
	owner := strings.Repeat("o", 22)
	acquire := base + "/distlock.v1.Locks/Acquire"
	// The socket accepts before the server runs, as with systemd: the first call waits for it.
	code, body := post(t, acquire, `{"name":"n","owner":"`+owner+`"}`)
	_, handle, _ := strings.Cut(body, `"handle":"`)
	handle, _, _ = strings.Cut(handle, `"`)
	if code != http.StatusOK || handle == "" {
		t.Fatalf("%d %s: %s", code, body, log)
	}
	waited := make(chan string, 1)
	go func() {
		_, body := post(t, acquire, `{"name":"n","wait":"20s"}`)
		waited <- body
	}()
	eventually(t, "a call waits", func() bool {
		_, body := post(t, base+"/distlock.v1.Locks/Get", `{"name":"n"}`)
		return strings.Contains(body, `"waiting":1`)
	})
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is not ready", func() bool {
		code, _ := get(t, http.DefaultClient, base+"/readyz")
		return code == http.StatusServiceUnavailable
	})
	if body := <-waited; !strings.Contains(body, `"again":true`) {
		t.Errorf("a wait that the end of the server interrupts: %s", body)
	}
	if code, body := post(t, acquire, `{"name":"other"}`); code != http.StatusServiceUnavailable || !strings.Contains(body, "KIND_DRAINING") {
		t.Errorf("Acquire: %d %s", code, body)
	}
	if code, body := post(t, base+"/distlock.v1.Locks/Renew", `{"handles":["`+handle+`"]}`); code != http.StatusOK || !strings.Contains(body, `"held":true`) {
		t.Errorf("Renew: %d %s", code, body)
	}
	if code, body := post(t, base+"/distlock.v1.Locks/Release", `{"handle":"`+handle+`"}`); code != http.StatusOK {
		t.Errorf("Release: %d %s", code, body)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { _ = p.Process.Kill() })
	defer late.Stop()
	state, _ := p.Process.Wait()
	if got := state.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != syscall.SIGTERM {
		t.Errorf("after the second TERM: %v: %s", state, log)
	}
}

// A program that rotates the file of the audit does not end a server that is about to end, which
// still serves renewals and releases.
func TestServe_rotated_late(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	base, p, log := serveProcess(t, "--drain", "10m", "--audit", audit)
	if code, body := get(t, http.DefaultClient, base+"/readyz"); code != http.StatusOK {
		t.Fatalf("%d %s: %s", code, body, log)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server is about to end", func() bool { return strings.Contains(log.String(), "ends in") })
	if err := os.Rename(audit, audit+".1"); err != nil {
		t.Fatal(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is opened again", func() bool {
		_, err := os.Stat(audit)
		return err == nil
	})
	if code, body := get(t, http.DefaultClient, base+"/livez"); code != http.StatusOK {
		t.Errorf("%d %s: %s", code, body, log)
	}
}

// Without sockets of systemd, the address systemd is an error.
func TestServe_noSockets(t *testing.T) {
	s := startServe(t, "--listen", "systemd")
	if code := <-s.code; code != exitUsage || !strings.Contains(s.err.String(), ".socket unit") {
		t.Errorf("exit %d: %s", code, s.err.String())
	}
}
