package postgres_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// A python is a Python program with the context manager of docs/postgres.md, and a function connect
// for a database.
type python struct {
	t     *testing.T
	in    io.Writer
	lines chan string
}

// startPython starts a program. Its input ends with the test, and so should the program.
func startPython(t *testing.T, url, script string) *python {
	t.Helper()
	const program = "/usr/bin/python3" // Debian's, which has Debian's modules
	if exec.Command(program, "-c", "import psycopg2").Run() != nil {
		testenv.Missing(t, "psycopg2", "apt-get install python3-psycopg2, or scripts/servers --all")
	}
	doc, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(doc), "```python\n")
	code, _, _ = strings.Cut(code, "```")
	code += `
import sys, psycopg2
connect = lambda: psycopg2.connect(os.environ["STORE"], application_name="python")
`
	cmd := exec.Command(program, "-c", code+script)
	cmd.Env = append(os.Environ(), "STORE="+url) // everybody can see the arguments
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &python{t: t, in: in, lines: make(chan string, 10)}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		stuck := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()
		for line := range p.lines {
			t.Errorf("unexpected output of python: %q", line)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("python: %v; %s", err, stderr.String())
		}
	})
	return p
}

// expect waits for a line of output.
func (p *python) expect(want string) {
	p.t.Helper()
	select {
	case got := <-p.lines:
		if got != want {
			p.t.Fatalf("python wrote %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		p.t.Fatalf("python did not write %q", want)
	}
}

// send writes a line to the program.
func (p *python) send(line string) { fmt.Fprintln(p.in, line) }
