package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scripted returns connections to a server that answers each request of a connection with the next
// of some texts, and then closes it. Made counts the connections.
func scripted(t *testing.T, texts ...string) (d *direct, made *int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for _, text := range texts {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(c, text)
				}
			})
		}
	})
	made = new(int)
	v := &server{conns: map[*conn]struct{}{}}
	d = newDirect(func(context.Context) (*conn, error) {
		*made++
		c, err := net.Dial("tcp", l.Addr().String())
		return &conn{c, v}, err
	}, nil)
	t.Cleanup(func() {
		d.CloseIdleConnections()
		_ = l.Close()
		serving.Wait()
	})
	return d, made
}

// post makes a call, and returns the body of the answer.
func post(ctx context.Context, d *direct) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader("request"))
	if err != nil {
		return "", err
	}
	resp, err := d.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// Answers of every form are read. A connection whose server has sent more than an answer, or less,
// is not used again: the rest would be the answer to the next call.
func TestDirect_answers(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull"
	for name, c := range map[string]struct {
		text        string
		fails, ends bool // the call, the connection
	}{
		"plain":                    {text: plain},
		"hints before":             {text: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + plain},
		"chunks":                   {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nfu\r\n2\r\nll\r\n0\r\n\r\n"},
		"the last one":             {text: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfull", ends: true},
		"two at once":              {text: plain + plain, ends: true},
		"a part":                   {text: plain[:len(plain)-1], fails: true, ends: true},
		"a part of a header":       {text: plain[:10], fails: true, ends: true},
		"nothing":                  {fails: true, ends: true},
		"no HTTP":                  {text: "220 mail.example.com ESMTP\r\n\r\n", fails: true, ends: true},
		"a header of any length":   {text: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 9000), fails: true, ends: true},
		"a body of any length":     {text: "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 9<<20), fails: true, ends: true},
		"a length without a bound": {text: "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\nfull", fails: true, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			texts := []string{c.text, plain}
			if c.fails {
				texts = texts[:1] // the connection ends
			}
			d, made := scripted(t, texts...)
			for i := range 2 {
				if got, err := post(t.Context(), d); (err != nil) != c.fails || !c.fails && got != "full" {
					t.Errorf("call %d: %.20q, %v", i, got, err)
				}
			}
			if want := map[bool]int{false: 1, true: 2}[c.ends]; *made != want {
				t.Errorf("%d connections, want %d", *made, want)
			}
		})
	}
}

// A call of a silent server ends with its ctx, and no later call uses its connection.
func TestDirect_silent(t *testing.T) {
	d, made := scripted(t, "", "")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		began := time.Now()
		_, err := post(ctx, d)
		cancel()
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	}
	if *made != 2 {
		t.Errorf("%d connections, want 2", *made)
	}
}

// Connections that are idle for long are closed.
func TestDirect_idle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDirect(nil, nil)
		idle := func() *carrier {
			ours, theirs := net.Pipe()
			t.Cleanup(func() { theirs.Close() })
			c := &carrier{Conn: ours}
			d.put(c)
			return c
		}
		closed := func(c *carrier) bool { return c.SetDeadline(time.Time{}) != nil }
		old := idle()
		time.Sleep(idleLimit / 2)
		later := idle()
		time.Sleep(idleLimit/2 + time.Second)
		if !closed(old) || closed(later) {
			t.Errorf("closed: the old one %v, the new one %v", closed(old), closed(later))
		}
		time.Sleep(idleLimit)
		d.mu.Lock()
		defer d.mu.Unlock()
		if !closed(later) || d.tended {
			t.Errorf("closed: the new one %v; a timer runs: %v", closed(later), d.tended)
		}
	})
}

// ending is a connection that ends a ctx when something arrives.
type ending struct {
	*net.TCPConn
	end func()
}

func (c ending) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.end()
	time.Sleep(10 * time.Millisecond) // what the end starts has happened
	return n, err
}

// A connection whose call ended at the moment of the answer is not used again.
func TestDirect_ended(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull"
	d, made := scripted(t, plain, plain)
	ctx, cancel := context.WithCancel(t.Context())
	dial := d.dial
	d.dial = func(ctx context.Context) (*conn, error) {
		c, err := dial(ctx)
		if err == nil {
			c.Conn = ending{c.Conn.(*net.TCPConn), cancel}
		}
		return c, err
	}
	if got, err := post(ctx, d); err != nil || got != "full" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := post(t.Context(), d); err != nil || got != "full" {
		t.Errorf("the next call: %q, %v", got, err)
	}
	if *made != 2 {
		t.Errorf("%d connections, want 2", *made)
	}
}

// writes is a connection that counts its writes.
type writes struct {
	*net.TCPConn
	n *int
}

func (c writes) Write(b []byte) (int, error) {
	*c.n++
	return c.TCPConn.Write(b)
}

// A request is one write, with a body of any kind and size, and the buffer of a large one is not
// kept.
func TestDirect_one_write(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull"
	d, made := scripted(t, plain, plain, plain)
	dial, n := d.dial, 0
	d.dial = func(ctx context.Context) (*conn, error) {
		c, err := dial(ctx)
		if err == nil {
			c.Conn = writes{c.Conn.(*net.TCPConn), &n}
		}
		return c, err
	}
	for i, size := range []int{100, 200 << 10, 100} {
		body := struct{ io.Reader }{strings.NewReader(strings.Repeat("x", size))} // net/http knows no such reader
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = int64(size)
		resp, err := d.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if n != i+1 || *made != 1 {
			t.Errorf("%d writes and %d connections for %d requests, want one write each and one connection", n, *made, i+1)
		}
	}
	if kept := d.idle[0].text.Cap(); kept > maxText {
		t.Errorf("a buffer of %d bytes is kept", kept)
	}
}

// piped is a connection in memory that looks like one of the system.
type piped struct{ net.Conn }

func (piped) SyscallConn() (syscall.RawConn, error) { return nil, nil }

// A call of a silent server ends after callLimit, also if its ctx has no end.
func TestDirect_limit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &server{conns: map[*conn]struct{}{}}
		var theirs net.Conn
		d := newDirect(func(context.Context) (*conn, error) {
			var ours net.Conn
			ours, theirs = net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }() // until ours is closed
			return &conn{piped{ours}, v}, nil
		}, nil)
		began := time.Now()
		_, err := post(context.Background(), d)
		took := time.Since(began)
		if !errors.Is(err, os.ErrDeadlineExceeded) || took < callLimit || took > callLimit+endStep {
			t.Errorf("after %v: %v", took, err)
		}
		if len(d.idle) > 0 {
			t.Error("the connection is kept")
		}
		_ = theirs.Close()
	})
}

// The limit of each call counts from its own beginning, and a connection is used again after the
// limit of its last call.
func TestDirect_limit_later(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull"
	d, made := scripted(t, plain, plain, plain)
	for range 3 {
		if got, err := post(t.Context(), d); err != nil || got != "full" {
			t.Fatalf("%q, %v", got, err)
		}
		c := d.idle[0]
		if left := time.Until(c.end); left < callLimit-time.Second || left > callLimit+endStep {
			t.Errorf("the deadline is in %v", left)
		}
		c.end = time.Now().Add(-time.Second)
		if err := c.SetDeadline(c.end); err != nil {
			t.Fatal(err)
		}
	}
	if *made != 1 {
		t.Errorf("%d connections, want 1", *made)
	}
}
