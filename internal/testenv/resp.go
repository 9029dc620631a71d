package testenv

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// callLimit ends a call whose context has no deadline. A busy machine takes seconds.
const callLimit = 30 * time.Second

// A RedisError is an error reply of Redis, such as "NOAUTH Authentication required.".
type RedisError string

func (e RedisError) Error() string { return string(e) }

// A respConn is a connection that speaks RESP2, just enough to check that a server is alive.
type respConn struct {
	net.Conn
	r *bufio.Reader
}

// dial opens a connection, with TLS if conf is not nil. The connection lasts until the deadline of
// ctx, or callLimit.
func dial(ctx context.Context, addr string, conf *tls.Config) (net.Conn, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(callLimit)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, err
	}
	if conf == nil {
		return conn, nil
	}
	secure := tls.Client(conn, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// do sends a command and returns its reply: a string, an int64, nil or a []any of them.
func (c *respConn) do(args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c.Conn, b.String()); err != nil {
		return nil, err
	}
	v, err := c.read()
	if err != nil {
		return nil, err
	}
	if e, ok := v.(RedisError); ok {
		return nil, e
	}
	return v, nil
}

func (c *respConn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("resp: empty line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return RedisError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resp: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		_, err := io.ReadFull(c.r, b)
		return string(b[:n]), err
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("resp: %q", line)
}
