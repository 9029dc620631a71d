//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/distlock/distlock/internal/testenv"
)

// A syncBuffer is a buffer that several goroutines may use.
type syncBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (p *syncBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(b)
}

func (p *syncBuffer) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.String()
}

func (p *syncBuffer) Len() int { return len(p.String()) }

func (p *syncBuffer) has(s string) func() bool {
	return func() bool { return strings.Contains(p.String(), s) }
}

// The store becomes unreachable, and restarts without its data.
func TestWatch_storeGone(t *testing.T) {
	r := testenv.Redis(t, testenv.Password("hunter22"))
	url := "redis://:hunter22@" + r.Addr
	if code := start(t, url, "acquire", "deploy", "--holder", "me").code(t); code != 0 {
		t.Fatal(code)
	}
	var out, errs syncBuffer
	p := exec.Command("distlock", "watch", "--json", "--interval", "50ms")
	p.Env = append(os.Environ(), "DISTLOCK_STORE="+url, "XDG_CONFIG_HOME="+t.TempDir())
	p.Stdout, p.Stderr = &out, &errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	eventually(t, "the existing claim", out.has(`"event":"held","name":"deploy"`))
	r.Kill()
	eventually(t, "it is away", out.has(`"event":"away","error":"`))
	r.Restart()
	eventually(t, "it is back", out.has(`"event":"back"}`))
	eventually(t, "it forgot", out.has(`"event":"released","name":"deploy"`))
	if code := start(t, url, "acquire", "later").code(t); code != 0 {
		t.Fatal(code)
	}
	eventually(t, "the later claim", out.has(`"event":"granted","name":"later"`))
	_ = p.Process.Signal(syscall.SIGINT)
	_ = p.Wait()
	if code := p.ProcessState.ExitCode(); code != 130 || errs.has("hunter22")() || out.has("hunter22")() {
		t.Errorf("%d %q", code, errs.all.String())
	}
}
