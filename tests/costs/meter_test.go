package costs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strconv"
	"sync"
	"testing"
)

// A tally counts network traffic.
type tally struct {
	conns    float64 // opened connections
	commands float64 // commands that clients sent
	trips    float64 // times that a client began to send after an answer
	sent     float64 // bytes
	received float64
}

func (a tally) minus(b tally) tally {
	return tally{a.conns - b.conns, a.commands - b.commands, a.trips - b.trips, a.sent - b.sent,
		a.received - b.received}
}

func (a tally) per(n float64) tally {
	return tally{a.conns / n, a.commands / n, a.trips / n, a.sent / n, a.received / n}
}

// A meter is a proxy before servers that counts the traffic.
type meter struct {
	count    func(*stream) int // removes complete commands from the stream and counts them
	crossing bool              // messages and answers cross each other: there are no round trips

	mu    sync.Mutex
	total tally
	open  int // open connections
}

// now returns the traffic so far, and the number of open connections.
func (m *meter) now() (total tally, open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	total = m.total
	if m.crossing {
		total.trips = math.NaN()
	}
	return total, m.open
}

// front returns the address of a proxy to a server. The meter counts its traffic.
func (m *meter) front(t *testing.T, server string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			target, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, client, target)
			mu.Unlock()
			wg.Go(func() { m.join(client, target) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// join forwards data between client and server, and counts it.
func (m *meter) join(client, server net.Conn) {
	sending := false // the client has sent data since the last answer
	in := &stream{}
	m.add(func() { m.total.conns++; m.open++ })
	var wg sync.WaitGroup
	wg.Go(func() {
		forward(server, client, func(b []byte) {
			m.add(func() {
				if !sending {
					sending = true
					m.total.trips++
				}
				m.total.sent += float64(len(b))
				in.Write(b)
				m.total.commands += float64(m.count(in))
			})
		})
	})
	wg.Go(func() {
		forward(client, server, func(b []byte) {
			m.add(func() {
				sending = false
				m.total.received += float64(len(b))
			})
		})
	})
	wg.Wait()
	m.add(func() { m.open-- })
}

func (m *meter) add(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// forward copies data until one side closes, and closes both.
func forward(to, from net.Conn, saw func([]byte)) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			saw(b[:n])
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// A stream holds data of a client that is not counted yet.
type stream struct {
	bytes.Buffer
	begun bool // the first message was counted
}

// resp counts commands of Redis: arrays of strings.
func resp(s *stream) (n int) {
	for {
		rest, err := respCommand(s.Bytes())
		if err != nil {
			return n
		}
		s.Next(s.Len() - len(rest))
		n++
	}
}

func respCommand(b []byte) (rest []byte, err error) {
	texts, rest, err := respNumber(b)
	for range texts {
		if err != nil {
			return nil, err
		}
		var size int
		size, rest, err = respNumber(rest)
		if err == nil && len(rest) < size+2 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			rest = rest[size+2:]
		}
	}
	return rest, err
}

// respNumber reads the number of a line, after the type character.
func respNumber(b []byte) (n int, rest []byte, err error) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) < 2 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	n, err = strconv.Atoi(string(line[1:]))
	return n, rest, err
}

// pgwire counts executed statements of PostgreSQL, prepared or not.
func pgwire(s *stream) (n int) {
	for {
		kind, err := pgMessage(s)
		if err != nil {
			return n
		}
		if kind == 'E' || kind == 'Q' {
			n++
		}
	}
}

func pgMessage(s *stream) (kind byte, err error) {
	b, mark := s.Bytes(), 1
	if !s.begun {
		mark = 0 // the first message has no type byte
	}
	if len(b) < mark+4 {
		return 0, io.ErrUnexpectedEOF
	}
	size := mark + int(binary.BigEndian.Uint32(b[mark:]))
	if len(b) < size {
		return 0, io.ErrUnexpectedEOF
	}
	if s.begun {
		kind = b[0]
	}
	s.begun = true
	s.Next(size)
	return kind, nil
}

// mysql counts statements of MariaDB, prepared or not. A command is the first packet of an
// exchange.
func mysql(s *stream) (n int) {
	for {
		b := s.Bytes()
		if len(b) < 4 {
			return n
		}
		size := 4 + int(b[0]) + int(b[1])<<8 + int(b[2])<<16
		if len(b) < size {
			return n
		}
		const query, execute = 0x03, 0x17
		if b[3] == 0 && size > 4 && (b[4] == query || b[4] == execute) {
			n++
		}
		s.Next(size)
	}
}

// grpc counts messages to etcd: frames of HTTP/2 with data.
func grpc(s *stream) (n int) {
	const preface, header = 24, 9
	if !s.begun {
		if s.Len() < preface {
			return 0
		}
		s.Next(preface)
		s.begun = true
	}
	for {
		b := s.Bytes()
		if len(b) < header {
			return n
		}
		length := int(b[0])<<16 + int(b[1])<<8 + int(b[2])
		if len(b) < header+length {
			return n
		}
		if data := b[3] == 0; data && length > 0 {
			n++
		}
		s.Next(header + length)
	}
}

func TestMeter(t *testing.T) {
	var s stream
	s.WriteString("*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\n$4\r\nPI")
	if n := resp(&s); n != 1 {
		t.Errorf("%d commands, want 1", n)
	}
	s.WriteString("NG\r\n")
	if n := resp(&s); n != 1 || s.Len() != 0 {
		t.Errorf("%d commands and %d bytes are left, want 1 and 0", n, s.Len())
	}
	var p stream
	p.Write([]byte{0, 0, 0, 8, 0, 3, 0, 0, 'B', 0, 0, 0, 4, 'E', 0, 0, 0, 4, 'S', 0, 0})
	if n := pgwire(&p); n != 1 {
		t.Errorf("%d statements, want 1", n)
	}
	var m stream
	m.Write([]byte{1, 0, 0, 1, 0x03, 2, 0, 0, 0, 0x03, 'x', 5, 0, 0, 0, 0x17, 'x'})
	if n := mysql(&m); n != 1 {
		t.Errorf("%d statements, want 1", n)
	}
	m.WriteString("xxx")
	if n := mysql(&m); n != 1 || m.Len() != 0 {
		t.Errorf("%d statements and %d bytes are left, want 1 and 0", n, m.Len())
	}
	var g stream
	g.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	g.Write([]byte{0, 0, 1, 1, 0, 0, 0, 0, 1, 'h', 0, 0, 2, 0, 0, 0, 0, 0, 1, 'd', 'd', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0})
	if n := grpc(&g); n != 1 || g.Len() != 2 {
		t.Errorf("%d messages and %d bytes are left, want 1 and 2", n, g.Len())
	}
	if _, err := respCommand([]byte("*x\r\n")); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no number: %v", err)
	}
}
