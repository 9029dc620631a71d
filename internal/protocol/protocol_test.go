package protocol_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/distlock/distlock/internal/protocol"
)

// A server that is silent, or closes the connection, is not identified as another one.
func TestConnect_unknown(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"silent":   func(net.Conn) {},
		"hangs up": func(c net.Conn) { c.Close() },
		"another":  func(c net.Conn) { _, _ = c.Write([]byte("220 mail.example ESMTP\r\n")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := listen(t, serve)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if found := protocol.At(short, addr); found != protocol.Unknown {
				t.Errorf("it speaks %q", found)
			}
			if name == "silent" {
				return // Connect would take longer
			}
			mine := errors.New("mine")
			for _, want := range []protocol.Protocol{protocol.Redis, protocol.RedisTLS, protocol.Postgres, protocol.PostgresTLS} {
				err := protocol.Connect(t.Context(), want, []string{addr, "127.0.0.1:1"}, func(context.Context) error { return mine })
				if err != mine { //nolint:errorlint // exactly this error
					t.Errorf("%s: %v, want what connect returns", want, err)
				}
			}
		})
	}
}

// The length of a greeting of MySQL may be the letter with which another server answers.
func TestAt_greeting(t *testing.T) {
	t.Parallel()
	for _, length := range "SN+-\x15j" {
		addr := listen(t, func(c net.Conn) { _, _ = c.Write([]byte(string(length) + "\x00\x00\x00\x0a11.4.2-MariaDB\x00")) })
		if found := protocol.At(t.Context(), addr); found != protocol.MySQL {
			t.Errorf("length %q: it speaks %q", length, found)
		}
	}
}

// A lock server is recognized by its header, and no other server that speaks HTTP is named.
func TestAt_lockServer(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]protocol.Protocol{"Distlock-Store: 1f0c8a52b7e94d10\r\n": protocol.LockServer, "": protocol.Unknown} {
		addr := listen(t, func(c net.Conn) {
			go func() { // as the server does, it waits for the rest of a request that is no HTTP
				line := make([]byte, 100)
				if n, err := c.Read(line); err == nil && strings.HasPrefix(string(line[:n]), "GET ") {
					_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n" + header + "\r\n"))
					_ = c.Close()
				}
			}()
		})
		if found := protocol.At(t.Context(), addr); found != want {
			t.Errorf("%q: it speaks %q, want %q", header, found, want)
		}
	}
}

// A connection that hangs is cancelled when the server turns out to speak another protocol.
func TestConnect_hangs(t *testing.T) {
	t.Parallel()
	addr := listen(t, func(c net.Conn) { _, _ = c.Write([]byte("-ERR unknown command\r\n")) })
	limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := protocol.Connect(limit, protocol.Postgres, []string{addr}, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	var other *protocol.Error
	if !errors.As(err, &other) || other.Found != protocol.Redis || other.Addr != addr {
		t.Errorf("%v", err)
	}
}

// listen serves connections until the test ends.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { c.Close() })
			serve(c)
		}
	}()
	return l.Addr().String()
}
