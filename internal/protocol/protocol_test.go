package protocol_test

import (
	"context"
	"errors"
	"net"
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
