package testenv

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

const pgProtocol = 3 << 16

// A PostgresError is an error reply of PostgreSQL or PgBouncer.
type PostgresError struct {
	Code    string // SQLSTATE
	Message string
}

func (e *PostgresError) Error() string { return e.Message + " (" + e.Code + ")" }

// A pgConn is a connection that speaks the simple part of PostgreSQL's protocol, just enough to
// check that a server is alive and to run queries.
type pgConn struct {
	net.Conn
	r *bufio.Reader
}

// pgQuery runs statements on a new connection, and returns the rows as text. NULL is "".
func pgQuery(ctx context.Context, addr, user, password, database, sql string) ([][]string, error) {
	conn, err := dial(ctx, addr, nil)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	c := &pgConn{conn, bufio.NewReader(conn)}
	if err := c.login(user, password, database); err != nil {
		return nil, err
	}
	rows, err := c.query(sql)
	if err != nil {
		return nil, err
	}
	return rows, c.send('X', nil)
}

// login opens the session.
func (c *pgConn) login(user, password, database string) error {
	var b bytes.Buffer
	b.Write(binary.BigEndian.AppendUint32(nil, pgProtocol))
	for _, s := range []string{"user", user, "database", database, ""} {
		b.WriteString(s + "\x00")
	}
	if err := c.send(0, b.Bytes()); err != nil {
		return err
	}
	for {
		kind, body, err := c.receive()
		if err != nil {
			return err
		}
		switch kind {
		case 'R':
			if err := c.authenticate(body, password); err != nil {
				return err
			}
		case 'Z':
			return nil
		}
	}
}

// authenticate answers the server's authentication request. It does not check the server's own
// proof, because the server belongs to the test.
func (c *pgConn) authenticate(body []byte, password string) error {
	if len(body) < 4 {
		return io.ErrUnexpectedEOF
	}
	switch method := binary.BigEndian.Uint32(body); method {
	case 0, 12: // welcome; the server's proof
		return nil
	case 3: // the password in clear
		return c.send('p', []byte(password+"\x00"))
	case 10: // SASL
		return c.scram(password)
	default:
		return fmt.Errorf("postgres: authentication method %d is not known here", method)
	}
}

// scram is SCRAM-SHA-256 (RFC 5802) without channel binding.
func (c *pgConn) scram(password string) error {
	first := "n=,r=" + rand.Text()
	hello := append([]byte("SCRAM-SHA-256\x00"), binary.BigEndian.AppendUint32(nil, uint32(len("n,,"+first)))...)
	if err := c.send('p', append(hello, "n,,"+first...)); err != nil {
		return err
	}
	kind, body, err := c.receive()
	if err != nil {
		return err
	}
	if kind != 'R' || len(body) < 4 {
		return errors.New("postgres: SCRAM: unexpected answer")
	}
	challenge := string(body[4:])
	var nonce, salt string
	var rounds int
	for part := range strings.SplitSeq(challenge, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "r":
			nonce = value
		case "s":
			salt = value
		case "i":
			rounds, err = strconv.Atoi(value)
		}
	}
	raw, err2 := base64.StdEncoding.DecodeString(salt)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	salted, err := pbkdf2.Key(sha256.New, password, raw, rounds, sha256.Size)
	if err != nil {
		return err
	}
	clientKey := mac(salted, "Client Key")
	stored := sha256.Sum256(clientKey)
	last := "c=biws,r=" + nonce
	proof := mac(stored[:], first+","+challenge+","+last)
	subtle.XORBytes(proof, proof, clientKey)
	return c.send('p', []byte(last+",p="+base64.StdEncoding.EncodeToString(proof)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (c *pgConn) query(sql string) (rows [][]string, err error) {
	if err := c.send('Q', []byte(sql+"\x00")); err != nil {
		return nil, err
	}
	for {
		kind, body, err := c.receive()
		if err != nil {
			return nil, err
		}
		switch kind {
		case 'D':
			row, err := pgRow(body)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		case 'Z':
			return rows, nil
		}
	}
}

func pgRow(body []byte) ([]string, error) {
	r := bytes.NewReader(body)
	var n uint16
	if err := binary.Read(r, binary.BigEndian, &n); err != nil {
		return nil, err
	}
	row := make([]string, n)
	for i := range row {
		var size int32
		if err := binary.Read(r, binary.BigEndian, &size); err != nil {
			return nil, err
		}
		cell := make([]byte, max(size, 0))
		if _, err := io.ReadFull(r, cell); err != nil {
			return nil, err
		}
		row[i] = string(cell)
	}
	return row, nil
}

// send writes a message. The first of a connection has no kind.
func (c *pgConn) send(kind byte, body []byte) error {
	var b []byte
	if kind != 0 {
		b = append(b, kind)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	_, err := c.Write(append(b, body...))
	return err
}

// receive reads a message. The server's error is an error.
func (c *pgConn) receive() (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if size < 0 || size > 1<<24 {
		return 0, nil, fmt.Errorf("postgres: a message of %d bytes", size)
	}
	body = make([]byte, size)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return 0, nil, err
	}
	if head[0] != 'E' {
		return head[0], body, nil
	}
	e := &PostgresError{}
	for field := range strings.SplitSeq(string(body), "\x00") {
		switch {
		case strings.HasPrefix(field, "C"):
			e.Code = field[1:]
		case strings.HasPrefix(field, "M"):
			e.Message = field[1:]
		}
	}
	return 0, nil, e
}
