package testenv_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/testenv"
)

// An echoServer sends every byte back, and remembers what it read.
type echoServer struct {
	addr string
	mu   sync.Mutex
	got  []byte
}

func newEchoServer(t *testing.T) *echoServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &echoServer{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				io.Copy(c, io.TeeReader(c, s))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return s
}

func (s *echoServer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, b...)
	return len(b), nil
}

func (s *echoServer) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.got)
}

// setUp returns a proxy in front of an echoServer, and a connection through it.
func setUp(t *testing.T) (*testenv.ProxyServer, *echoServer, net.Conn) {
	t.Parallel()
	s := newEchoServer(t)
	p := testenv.Proxy(t, s.addr)
	c := connect(t, p)
	is(t, exchange(t, c, "hello"), "hello")
	return p, s, c
}

func connect(t *testing.T, p *testenv.ProxyServer) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads up to n bytes, and returns the bytes that arrived within the time and the error.
func hear(c net.Conn, n int, within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	b := make([]byte, n)
	got, err := io.ReadFull(c, b)
	return string(b[:got]), err
}

func exchange(t *testing.T, c net.Conn, text string) string {
	t.Helper()
	say(t, c, text)
	got, err := hear(c, len(text), 5*time.Second)
	if err != nil {
		t.Fatalf("no answer to %q: %v", text, err)
	}
	return got
}

// silent checks that nothing arrives, and the connection is still open.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := hear(c, 1, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want silence", got, err)
	}
}

// broken checks that the connection ends, with a reset if wanted.
func broken(t *testing.T, c net.Conn, reset bool) {
	t.Helper()
	got, err := hear(c, 1, 5*time.Second)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v; want the end", got, err)
	}
	if reset && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a reset", err)
	}
}

// fired checks that the proxy reports that it has triggered the armed fault.
func fired(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("the proxy did nothing")
	}
}

// refused checks that a new connection ends at once: during the dial or after it.
func refused(t *testing.T, p *testenv.ProxyServer) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		return
	}
	defer c.Close()
	broken(t, c, false)
}

func TestProxy_latency(t *testing.T) {
	p, _, c := setUp(t)
	p.Latency(60 * time.Millisecond)
	began := time.Now()
	exchange(t, c, "slow")
	if took := time.Since(began); took < 120*time.Millisecond {
		t.Errorf("the way there and back took %v", took)
	}
	p.Latency(time.Hour)
	say(t, c, "x") // the end of the test must not wait for this data
}

func TestProxy_cut(t *testing.T) {
	for name, d := range map[string]testenv.Direction{
		"requests": testenv.ToServer, "replies": testenv.ToClient, "both": testenv.Both,
	} {
		t.Run(name, func(t *testing.T) {
			p, s, c := setUp(t)
			p.Cut(d)
			say(t, c, "lost")
			silent(t, c)
			want := "hello"
			if d == testenv.ToClient {
				want = "hellolost"
			}
			eventually(t, 5*time.Second, "the server hears "+want, func() bool { return s.heard() == want })
			is(t, p.Conns(), 1)
			p.Heal()
			broken(t, c, true)
			is(t, exchange(t, connect(t, p), "again"), "again")
		})
	}
}

func TestProxy_cut_end(t *testing.T) {
	p, _, c := setUp(t)
	p.Cut(testenv.Both)
	c.Close()
	// The server must not see the end of a connection through a cut.
	time.Sleep(50 * time.Millisecond)
	is(t, p.Conns(), 1)
	p.Heal()
	eventually(t, 5*time.Second, "the connection ends", func() bool { return p.Conns() == 0 })
}

func TestProxy_heal_keepsUnharmed(t *testing.T) {
	p, _, c := setUp(t)
	p.Cut(testenv.Both)
	p.Heal()
	is(t, exchange(t, c, "still here"), "still here")
}

func TestProxy_hold(t *testing.T) {
	p, s, c := setUp(t)
	p.Hold(testenv.ToServer)
	say(t, c, "late")
	silent(t, c)
	is(t, s.heard(), "hello")
	p.Heal()
	got, err := hear(c, 4, 5*time.Second)
	if err != nil {
		t.Error(err)
	}
	is(t, got, "late")
}

func TestProxy_reset(t *testing.T) {
	p, _, c := setUp(t)
	p.Reset()
	broken(t, c, true)
	is(t, exchange(t, connect(t, p), "again"), "again")
}

func TestProxy_refuse(t *testing.T) {
	p, _, c := setUp(t)
	p.Refuse()
	broken(t, c, true)
	refused(t, p)
	p.Heal()
	is(t, exchange(t, connect(t, p), "again"), "again")
}

func TestProxy_eatReply(t *testing.T) {
	p, s, c := setUp(t)
	eaten := p.EatReply([]byte("marker"))
	is(t, exchange(t, c, "other"), "other")
	// The marker spans two pieces.
	is(t, exchange(t, c, "mar"), "mar")
	say(t, c, "ker!")
	broken(t, c, false)
	fired(t, eaten)
	is(t, s.heard(), "helloothermarker!")
	is(t, exchange(t, connect(t, p), "marker"), "marker") // once only
}

func TestProxy_cutAfter(t *testing.T) {
	for n, want := range []string{"", "a", "ab", "abc"} {
		t.Run(want, func(t *testing.T) {
			p, s, c := setUp(t)
			done := p.CutAfter(n)
			say(t, c, "abc")
			got, err := hear(c, 4, 5*time.Second)
			if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection is open: %v", err)
			}
			is(t, got, want)
			fired(t, done)
			is(t, s.heard(), "helloabc")
			is(t, exchange(t, connect(t, p), "abc"), "abc")
		})
	}
}

func TestProxy_serverGone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	refused(t, testenv.Proxy(t, l.Addr().String()))
}

// An outcome that is unknown to the client: the command was done, the reply was lost.
func TestProxy_redis(t *testing.T) {
	t.Parallel()
	r := testenv.Redis(t)
	p := testenv.Proxy(t, r.Addr)
	through := &testenv.RedisServer{Server: &testenv.Server{Addr: p.Addr}}
	eaten := p.EatReply([]byte("INCR"))
	if v, err := through.Do(t.Context(), "INCR", "n"); err == nil {
		t.Errorf("the reply arrived: %v", v)
	}
	fired(t, eaten)
	is(t, do(t, r, "GET", "n"), "1")
	is(t, do(t, through, "INCR", "n"), "2")
}
