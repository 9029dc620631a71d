// Package protocol detects the protocol of the server at an address, for a clear error about a URL
// that names another one. It sends neither a user nor a password.
package protocol

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A Protocol is the protocol of a server.
type Protocol string

// The protocols that can be distinguished.
const (
	Redis       Protocol = "Redis"
	RedisTLS    Protocol = "Redis over TLS" // only wanted: the one found is TLS
	Postgres    Protocol = "PostgreSQL"
	PostgresTLS Protocol = "PostgreSQL with TLS" // plain connections may work too
	MySQL       Protocol = "MySQL"               // with or without TLS; also MariaDB
	TLS         Protocol = "TLS"                 // from the first byte, with any protocol inside
	LockServer  Protocol = "HTTP of a lock server"
	Unknown     Protocol = ""
)

const (
	// patience is how long a connection may take before the server is probed. A distant server with
	// TLS takes about as long.
	patience = time.Second

	// silence is how long a server may be silent before a second probe is sent too. Redis answers
	// only after the end of a line.
	silence = 300 * time.Millisecond

	// limit bounds all probes of one server.
	limit = 3 * time.Second
)

// An Error reports that a server speaks another protocol than the URL names. Its text names the
// address and a URL to try.
type Error struct {
	Addr        string
	Want, Found Protocol
}

func (e *Error) Error() string {
	not := fmt.Sprintf("%s speaks %s, not %s", e.Addr, e.Found, e.Want)
	switch {
	case e.Want == PostgresTLS && e.Found == Postgres:
		return e.Addr + " speaks PostgreSQL without TLS: turn on ssl in the server, or try sslmode=disable"
	case e.Want == Redis && e.Found == TLS:
		return e.Addr + " speaks TLS: try rediss:// in place of redis://"
	case e.Want == RedisTLS && e.Found == Redis:
		return e.Addr + " speaks Redis without TLS: try redis:// in place of rediss://"
	case e.Found == Postgres, e.Found == PostgresTLS:
		return not + ": try postgres://" + e.Addr
	case e.Found == MySQL:
		return not + ": try mysql://" + e.Addr
	case e.Found == Redis:
		return not + ": try redis://" + e.Addr
	case e.Found == LockServer:
		return e.Addr + " is a lock server: try http://" + e.Addr
	case e.Found == TLS:
		return not + ": try rediss://" + e.Addr
	}
	return not
}

// Connect calls connect. If that fails or takes long, Connect probes the servers at the addresses.
// If one of them speaks another protocol than the wanted one, Connect cancels the ctx of connect
// and returns an [*Error]. Otherwise it returns the result of connect.
func Connect(ctx context.Context, want Protocol, addrs []string,
	connect func(ctx context.Context) error) error {
	call, cancel := context.WithCancelCause(ctx)
	probed := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(probed)
		if err := mismatch(call, want, addrs); err != nil {
			cancel(err)
		}
	})
	err := connect(call)
	var other *Error
	late := errors.As(context.Cause(call), &other)
	cancel(nil)
	again := timer.Stop()
	if !again {
		<-probed
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case late:
		return other
	case !again:
		return err
	}
	if other := mismatch(ctx, want, addrs); other != nil {
		return other
	}
	return err
}

// mismatch returns an [*Error] if one of the servers certainly speaks another protocol than the
// wanted one.
func mismatch(ctx context.Context, want Protocol, addrs []string) error {
	for _, addr := range addrs {
		found := At(ctx, addr)
		fits := found == want || want == RedisTLS && found == TLS ||
			want == Postgres && found == PostgresTLS
		if fits || found == Unknown {
			continue
		}
		return &Error{addr, want, found}
	}
	return nil
}

// startTLS is the message with which a PostgreSQL client requests TLS. A PostgreSQL server answers
// it with one letter, and Redis waits for the end of the line.
const startTLS = "\x00\x00\x00\x08\x04\xd2\x16\x2f"

// At returns the protocol of the server at an address.
func At(ctx context.Context, addr string) Protocol {
	ctx, cancel := context.WithTimeout(ctx, limit)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan Protocol, 3)
	wg.Go(func() { answers <- probe(ctx, addr, startTLS) })
	select {
	case p := <-answers:
		return p
	case <-time.After(silence):
	}
	// A second connection: Redis waits for ever after the zeros of the first probe.
	wg.Go(func() { answers <- probe(ctx, addr, "PING\r\n") })
	left := 2
	for last := time.After(silence); left > 0; {
		select {
		case p := <-answers:
			if left--; p != Unknown {
				return p
			}
		case <-last: // a lock server waits for the rest of a request
			wg.Go(func() { answers <- lockServer(ctx, addr) })
			left++
		}
	}
	return Unknown
}

// probe sends a message to a server, and identifies it by its first bytes.
func probe(ctx context.Context, addr, message string) Protocol {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Unknown
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	var first [8]byte
	n := 0
	if _, err := c.Write([]byte(message)); err == nil {
		n, _ = c.Read(first[:])
	}
	switch {
	case n > 0:
		return begins(first[:n])
	case ctx.Err() == nil && speaksTLS(ctx, addr): // it closed the connection
		return TLS
	}
	return Unknown
}

// lockServer sends a request of HTTP, and identifies a lock server by the identity of its store,
// which is in each of its answers. The request has no header Host, which Redis would log as an
// attack. Package net/http would be large in a program that needs it for nothing else.
func lockServer(ctx context.Context, addr string) Protocol {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Unknown
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if _, err := c.Write([]byte("GET /livez HTTP/1.0\r\n\r\n")); err != nil {
		return Unknown
	}
	answer, _ := io.ReadAll(io.LimitReader(c, 4<<10)) // a part is enough
	if !bytes.HasPrefix(answer, []byte("HTTP/")) || !bytes.Contains(answer, []byte("\r\nDistlock-Store: ")) {
		return Unknown
	}
	return LockServer
}

// begins identifies a protocol by the first bytes of a server. Other HTTP is left out: some
// networks answer with HTTP for a host that cannot be reached.
func begins(b []byte) Protocol {
	// MySQL sends first: the length of its greeting, which may be any letter, number 0, version 10.
	if len(b) > 4 && b[3] == 0 && b[4] == 10 {
		return MySQL
	}
	switch b[0] {
	case 'S':
		return PostgresTLS
	case 'N':
		return Postgres
	case '-', '+':
		return Redis
	case 0x15: // an alert
		return TLS
	}
	return Unknown
}

// speaksTLS reports whether a server answers a TLS handshake.
func speaksTLS(ctx context.Context, addr string) bool {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it sends nothing after the handshake
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return errors.As(err, new(tls.AlertError))
	}
	_ = c.Close()
	return true
}
