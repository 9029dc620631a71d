package testenv_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// playDial connects, and writes for each line that it reads whether the line comes back.
func playDial(args []string) int {
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		return 1
	}
	defer c.Close()
	b := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(b); err != nil {
			return 0
		}
		if b[0] == '\n' {
			continue
		}
		if _, err := c.Write(b); err != nil {
			return 1
		}
		if _, err := io.ReadFull(c, b); err != nil {
			return 1
		}
		os.Stdout.Write(append(b, '\n'))
	}
}

// Dropped packets arrive after the cable is healed, in each direction separately.
func TestNetwork(t *testing.T) {
	n := testenv.NewNetwork(t)
	l, err := net.Listen("tcp", n.Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := n.Command(self, l.Addr().String())
	cmd.Env = append(os.Environ(), "DISTLOCK_TEST_ROLE=dial")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	lines := make(chan byte)
	go func() {
		defer close(lines)
		b := make([]byte, 2)
		for {
			if _, err := io.ReadFull(out, b); err != nil {
				return
			}
			lines <- b[0]
		}
	}()
	echo := func(b byte) {
		t.Helper()
		in.Write([]byte{b, '\n'})
	}
	comes := func(b byte, within time.Duration) bool {
		select {
		case got := <-lines:
			return got == b
		case <-time.After(within):
			return false
		}
	}
	echo('a')
	if !comes('a', 10*time.Second) {
		t.Fatal("nothing comes through a whole cable")
	}
	for i, d := range []testenv.Direction{testenv.ToServer, testenv.ToClient, testenv.Both} {
		if err := n.Cut(d); err != nil {
			t.Fatal(err)
		}
		b := byte('b' + i)
		echo(b)
		if comes(b, 200*time.Millisecond) {
			t.Errorf("%v: it came through a cut cable", d)
		}
		if err := n.Heal(); err != nil {
			t.Fatal(err)
		}
		if !comes(b, 10*time.Second) {
			t.Errorf("%v: it never arrived", d)
		}
	}
}

func TestDisk(t *testing.T) {
	d := testenv.NewDisk(t, 1<<20)
	write := func() error { return os.WriteFile(filepath.Join(d.Path, "x"), make([]byte, 10<<10), 0o600) }
	if err := write(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Fill(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d.Path, "y"), make([]byte, 10<<10), 0o600); err == nil {
			t.Error("there is space on a full disk")
		}
		if err := d.Free(); err != nil {
			t.Fatal(err)
		}
		if err := write(); err != nil {
			t.Error(err)
		}
	}
}

// A server whose data is on a separate disk writes there.
func TestOnDisk(t *testing.T) {
	d := testenv.NewDisk(t, 4<<20)
	r := testenv.Redis(t, testenv.AOF(), testenv.OnDisk(d))
	if _, err := r.Do(t.Context(), "SET", "a", "1"); err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if r.Running() {
		t.Error("it runs")
	}
	r.Restart()
	if v, err := r.Do(t.Context(), "GET", "a"); v != "1" || err != nil || !r.Running() {
		t.Error(v, err)
	}
	if found, _ := filepath.Glob(filepath.Join(d.Path, "*", "appendonlydir")); len(found) != 1 {
		t.Error(found)
	}
}
