package costs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// A tally is what went over the wire.
type tally struct {
	conns    float64 // that were opened
	commands float64 // that clients sent
	trips    float64 // how often a client began to send after it had been answered
	sent     float64 // bytes
	received float64
}

func (a tally) minus(b tally) tally {
	return tally{a.conns - b.conns, a.commands - b.commands, a.trips - b.trips, a.sent - b.sent, a.received - b.received}
}

func (a tally) over(n float64) tally {
	return tally{a.conns / n, a.commands / n, a.trips / n, a.sent / n, a.received / n}
}

// A meter stands before servers and counts what passes.
type meter struct {
	count func(*stream) int // takes whole commands off the beginning of what a client sent

	mu    sync.Mutex
	total tally
	open  int // connections that are open now
}

// now is what passed until now, and how many connections are open.
func (m *meter) now() (total tally, open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total, m.open
}

// front returns an address at which the server at another one is reached through the meter.
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

// join passes everything on between two, and counts it.
func (m *meter) join(client, server net.Conn) {
	asking := false // the client has sent since it was last answered
	in := &stream{}
	m.add(func() { m.total.conns++; m.open++ })
	var wg sync.WaitGroup
	wg.Go(func() {
		pass(server, client, func(b []byte) {
			m.add(func() {
				if !asking {
					asking = true
					m.total.trips++
				}
				m.total.sent += float64(len(b))
				in.Write(b)
				m.total.commands += float64(m.count(in))
			})
		})
	})
	wg.Go(func() {
		pass(client, server, func(b []byte) {
			m.add(func() {
				asking = false
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

// pass copies until one side ends, and ends both.
func pass(to, from net.Conn, saw func([]byte)) {
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

// A stream is what a client sent and nobody has counted yet.
type stream struct {
	bytes.Buffer
	begun bool // the first message was counted
}

// resp counts commands of Redis: arrays of texts.
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

// respNumber reads the number of a line, after its mark.
func respNumber(b []byte) (n int, rest []byte, err error) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) < 2 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	n, err = strconv.Atoi(string(line[1:]))
	return n, rest, err
}

// pgwire counts statements of PostgreSQL: those that are executed, prepared or not.
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
		mark = 0 // the first message has no letter
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
	if _, err := respCommand([]byte("*x\r\n")); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no number: %v", err)
	}
}
