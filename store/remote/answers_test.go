package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
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
