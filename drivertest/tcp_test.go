package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/store/mem"
)

// A tcpCall is a call to a server over TCP, and a tcpAnswer its answer. A watch has many answers.
type (
	tcpCall struct {
		Verb    string
		Request driver.Request
		Renewal driver.Renewal
		UpTo    uint64
		Reason  string
	}
	tcpAnswer struct {
		Result driver.Result
		Behind int
		Claims []driver.Claim
		Err    string
	}
)

// serveTCP serves a store in memory over TCP until the test ends.
func serveTCP(t *testing.T) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := mem.New()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { c.Close() })
			wg.Go(func() { serveConn(ctx, m, c) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func serveConn(ctx context.Context, m *mem.Store, c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var call tcpCall
		if in.Decode(&call) != nil {
			return
		}
		var a tcpAnswer
		var err error
		switch call.Verb {
		case "acquire":
			a.Result, err = m.Acquire(ctx, call.Request)
		case "renew":
			a.Behind, err = m.Renew(ctx, call.Renewal)
		case "release":
			err = m.Release(ctx, call.Request.ID)
		case "break":
			a.Claims, err = m.Break(ctx, call.Request.Key, call.UpTo, call.Reason)
		case "show":
			a.Claims, err = m.Show(ctx, call.Request.Key)
		case "watch":
			for wake := m.Watch(ctx, call.Request.ID); ; {
				if out.Encode(a) != nil {
					return
				}
				select {
				case <-wake:
				case <-ctx.Done():
					return
				}
			}
		}
		if err != nil {
			a.Err = err.Error()
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

// flaws are the mistakes of a tcpStore. The zero flaws are none.
type flaws struct {
	lostIsUnavailable bool // a reply that is lost is reported as if nothing had been sent
	sendsAgain        bool // a call without a reply is sent again
	keepsConn         bool // a connection with a pending reply is used for the next call
	deaf              bool // ctx is ignored
	lostIsRefused     bool // a reply that is lost is a refusal
	neverDials        bool // a connection that was lost stays so
	stopsWatching     bool // a watch ends with its connection
}

// A tcpStore is a store behind one connection.
type tcpStore struct {
	addr string
	flaws
	ctx context.Context // of the store
	wg  *sync.WaitGroup

	mu   sync.Mutex
	conn net.Conn
	in   *json.Decoder
	dead bool
}

func openTCP(t testing.TB, addr string, f flaws) *tcpStore {
	ctx, cancel := context.WithCancel(context.Background())
	s := &tcpStore{addr: addr, flaws: f, ctx: ctx, wg: new(sync.WaitGroup)}
	t.Cleanup(func() {
		cancel()
		s.mu.Lock()
		s.drop()
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *tcpStore) Features() driver.Features { return mem.New().Features() }

func (s *tcpStore) drop() {
	if s.conn != nil {
		s.conn.Close()
		s.conn, s.dead = nil, true
	}
}

// do makes a call.
func (s *tcpStore) do(ctx context.Context, call tcpCall) (a tcpAnswer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, err = s.send(ctx, call); err != nil && s.sendsAgain && !errors.Is(err, driver.ErrUnavailable) {
		a, err = s.send(ctx, call)
	}
	if err != nil {
		return a, err
	}
	for _, known := range []error{driver.ErrNotHeld, driver.ErrInvalid, driver.ErrUnavailable} {
		if a.Err == known.Error() {
			return a, known
		}
	}
	if a.Err != "" {
		return a, fmt.Errorf("%w: %s", driver.ErrInvalid, a.Err)
	}
	return a, nil
}

func (s *tcpStore) send(ctx context.Context, call tcpCall) (a tcpAnswer, err error) {
	if s.conn == nil {
		if s.neverDials && s.dead {
			return a, fmt.Errorf("%w: closed", driver.ErrUnavailable)
		}
		if s.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", s.addr); err != nil {
			s.conn = nil
			return a, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
		}
		s.in = json.NewDecoder(s.conn)
	}
	conn := s.conn
	if !s.deaf {
		end := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
		defer func() {
			if end() || s.keepsConn {
				conn.SetDeadline(time.Time{})
			}
		}()
	}
	if err = json.NewEncoder(conn).Encode(call); err == nil {
		err = s.in.Decode(&a)
	}
	if err == nil {
		return a, nil
	}
	if ctx.Err() != nil && s.keepsConn {
		s.in = json.NewDecoder(conn)
		return a, ctx.Err()
	}
	s.drop()
	switch {
	case s.lostIsRefused:
		return tcpAnswer{}, nil
	case s.lostIsUnavailable:
		return a, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return a, err
}

func (s *tcpStore) Acquire(ctx context.Context, r driver.Request) (driver.Result, error) {
	a, err := s.do(ctx, tcpCall{Verb: "acquire", Request: r})
	return a.Result, err
}

func (s *tcpStore) Renew(ctx context.Context, r driver.Renewal) (int, error) {
	a, err := s.do(ctx, tcpCall{Verb: "renew", Renewal: r})
	return a.Behind, err
}

func (s *tcpStore) Release(ctx context.Context, id driver.ID) error {
	_, err := s.do(ctx, tcpCall{Verb: "release", Request: driver.Request{ID: id}})
	return err
}

func (s *tcpStore) Break(ctx context.Context, key string, upTo uint64, reason string) ([]driver.Claim, error) {
	r := driver.Request{ID: driver.ID{Key: key}}
	a, err := s.do(ctx, tcpCall{Verb: "break", Request: r, UpTo: upTo, Reason: reason})
	return a.Claims, err
}

func (s *tcpStore) Show(ctx context.Context, key string) ([]driver.Claim, error) {
	a, err := s.do(ctx, tcpCall{Verb: "show", Request: driver.Request{ID: driver.ID{Key: key}}})
	return a.Claims, err
}

// Watch watches on a connection of its own. Each new connection wakes the watcher, since a message
// may have been lost before.
func (s *tcpStore) Watch(ctx context.Context, id driver.ID) <-chan driver.Wake {
	wake := make(chan driver.Wake, 1)
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(s.ctx, cancel)
	s.wg.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr); err == nil {
				end := context.AfterFunc(ctx, func() { conn.Close() })
				_ = json.NewEncoder(conn).Encode(tcpCall{Verb: "watch", Request: driver.Request{ID: id}})
				var a tcpAnswer
				for in := json.NewDecoder(conn); in.Decode(&a) == nil; {
					select {
					case wake <- driver.Wake{}:
					default:
					}
				}
				end()
				conn.Close()
			}
			if s.stopsWatching {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	return wake
}

// TestFaults_catch_flaws shows that Faults passes a correct store, and finds the flaws of others.
func TestFaults_catch_flaws(t *testing.T) {
	for name, c := range map[string]struct {
		flaws flaws
		finds []string // the breakages that must find it
	}{
		"none":                        {flaws{}, nil},
		"a lost reply is unavailable": {flaws{lostIsUnavailable: true}, []string{"the reply is lost", "the reply is cut", "replies are swallowed", "replies are late"}},
		"a lost reply is a refusal":   {flaws{lostIsRefused: true}, []string{"the reply is lost", "replies are swallowed", "requests are swallowed"}},
		"calls are sent again":        {flaws{sendsAgain: true}, []string{"the reply is lost"}},
		"late replies are taken":      {flaws{keepsConn: true}, []string{"replies are late"}},
		"ctx is ignored":              {flaws{deaf: true}, []string{"requests are swallowed"}},
		"connections stay lost":       {flaws{neverDials: true}, []string{"the connection is reset"}},
		"a watch ends":                {flaws{stopsWatching: true}, []string{"the connection is reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := Env{
				TTL: 30 * time.Millisecond, Server: serveTCP(t),
				Open: func(t testing.TB) driver.Store { return nil }, // below
				Through: func(t testing.TB, _ driver.Store, addr string) driver.Store {
					return openTCP(t, addr, c.flaws)
				},
			}
			direct := openTCP(t, env.Server, flaws{})
			env.Open = func(testing.TB) driver.Store { return direct }
			if c.finds == nil {
				env.TTL = 200 * time.Millisecond // it must not fail on a slow machine
				Faults(t, env)
				return
			}
			for _, b := range breakages() {
				for _, want := range c.finds {
					if b.name == want && b.try(t, env, direct) == "" {
						t.Errorf("nothing is wrong where %s", b.name)
					}
				}
			}
		})
	}
}
