// Package protocol finds out which protocol the server at an address speaks, for a clear error
// about a URL that names another one. It sends neither a user nor a password.
package protocol

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Protocol is what a server speaks.
type Protocol string

// The protocols that can be distinguished.
const (
	Redis       Protocol = "Redis"
	RedisTLS    Protocol = "Redis over TLS" // is only wanted: what is found is TLS
	Postgres    Protocol = "PostgreSQL"
	PostgresTLS Protocol = "PostgreSQL with TLS" // plain connections may do as well
	TLS         Protocol = "TLS"                 // from the first byte, with anything inside
	Unknown     Protocol = ""
)

const (
	// patience is how long a connection may take before the server is asked. A server far away with
	// TLS takes about as long.
	patience = time.Second

	// silence is how long a server may take for a word before it is asked in another way, too. Redis
	// says nothing until a line has ended.
	silence = 300 * time.Millisecond

	// limit bounds all questions to one server.
	limit = 3 * time.Second
)

// An Error says that a server speaks another protocol than the URL names. It names the address and
// what to try.
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
	case e.Found == Redis:
		return not + ": try redis://" + e.Addr
	case e.Found == TLS:
		return not + ": try rediss://" + e.Addr
	}
	return not
}

// Connect calls connect. If that fails or takes long, the servers at the addresses are asked what
// they speak. If one of them speaks something else than what is wanted, the ctx of connect ends and
// the error is an *Error. Otherwise it is what connect returns.
func Connect(ctx context.Context, want Protocol, addrs []string, connect func(ctx context.Context) error) error {
	call, cancel := context.WithCancelCause(ctx)
	asked := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(asked)
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
		<-asked
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

// mismatch returns an *Error if one of the servers surely speaks something else than is wanted.
func mismatch(ctx context.Context, want Protocol, addrs []string) error {
	for _, addr := range addrs {
		found := At(ctx, addr)
		fits := found == want || want == RedisTLS && found == TLS || want == Postgres && found == PostgresTLS
		if fits || found == Unknown {
			continue
		}
		return &Error{addr, want, found}
	}
	return nil
}

// startTLS is how a client of PostgreSQL asks whether the server speaks TLS. A server of PostgreSQL
// answers it with one letter, and Redis waits for the end of the line.
const startTLS = "\x00\x00\x00\x08\x04\xd2\x16\x2f"

// At asks the server at an address what it speaks.
func At(ctx context.Context, addr string) Protocol {
	ctx, cancel := context.WithTimeout(ctx, limit)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan Protocol, 2)
	wg.Go(func() { answers <- ask(ctx, addr, startTLS) })
	select {
	case p := <-answers:
		return p
	case <-time.After(silence):
	}
	// A connection of its own: Redis waits for ever behind the zeros of the first question.
	wg.Go(func() { answers <- ask(ctx, addr, "PING\r\n") })
	if p := <-answers; p != Unknown {
		return p
	}
	return <-answers
}

// ask sends some words to a server, and identifies it by the first byte of its answer.
func ask(ctx context.Context, addr, words string) Protocol {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return Unknown
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	var first [1]byte
	if _, err = c.Write([]byte(words)); err == nil {
		_, err = c.Read(first[:])
	}
	switch {
	case err == nil:
		return begins(first[0])
	case ctx.Err() == nil && speaksTLS(ctx, addr): // it hung up
		return TLS
	}
	return Unknown
}

// begins identifies a protocol by the first byte of an answer. HTTP is left out: some networks
// answer so in place of a host that cannot be reached.
func begins(b byte) Protocol {
	switch b {
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
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent over it: only the handshake counts
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return errors.As(err, new(tls.AlertError))
	}
	_ = c.Close()
	return true
}
