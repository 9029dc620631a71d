package remote_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/distlock/distlock/driver"
	"github.com/distlock/distlock/drivertest"
	"github.com/distlock/distlock/internal/testenv"
	"github.com/distlock/distlock/server"
	"github.com/distlock/distlock/server/access"
	"github.com/distlock/distlock/store/mem"
	"github.com/distlock/distlock/store/remote"
	"github.com/distlock/distlock/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Main(m, nil)) }

// discard is the log of servers whose clients are wrong.
var discard = log.New(io.Discard, "", 0)

// serve serves a store on a listener until the test ends.
func serve(t testing.TB, s driver.Store, l net.Listener) *server.Server {
	t.Helper()
	audit := server.NewAudit(io.Discard)
	t.Cleanup(func() { _ = audit.Close() })
	v, err := server.New(t.Context(), s, &server.Options{Anonymous: access.Everything("test"), Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	run(t, v.HTTP(), l)
	return v
}

func run(t testing.TB, h *http.Server, l net.Listener) {
	t.Helper()
	var done sync.WaitGroup
	done.Go(func() { _ = h.Serve(l) })
	t.Cleanup(func() {
		_ = h.Close()
		done.Wait()
	})
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t testing.TB, url string, opt *remote.Options) *remote.Store {
	t.Helper()
	s, err := remote.Open(t.Context(), url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// pipes is a listener in memory, for virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu  sync.Mutex
	all []net.Conn
}

// drop breaks all connections.
func (p *pipes) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		_ = c.Close()
	}
	p.all = nil
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.mu.Lock()
	p.all = append(p.all, theirs)
	p.mu.Unlock()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The contract in virtual time, over a server of the memory store.
func TestStore_virtual(t *testing.T) {
	drivertest.Run(t, drivertest.Env{
		Virtual: true, Many: 100,
		Open: func(t testing.TB) driver.Store {
			p := newPipes()
			serve(t, mem.New(), p)
			return open(t, "http://localhost", &remote.Options{Dial: p.dial})
		},
	})
}

// site is a server of a SQLite file, on a socket.
func site(t testing.TB) (addr string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "locks.db"), &sqlite.Options{Remote: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l := listen(t)
	serve(t, s, l)
	return l.Addr().String()
}

// env is a server of a SQLite file. Rules and faults have their own keys on it.
func env(t *testing.T) drivertest.Env {
	addr := site(t)
	through := func(t testing.TB, addr string) driver.Store { return open(t, "http://"+addr, nil) }
	return drivertest.Env{
		Server: addr, Many: 100,
		Open:    func(t testing.TB) driver.Store { return through(t, addr) },
		Through: func(t testing.TB, _ driver.Store, addr string) driver.Store { return through(t, addr) },
		Restart: func(t testing.TB, s driver.Store) driver.Store {
			_ = s.(*remote.Store).Close()
			return through(t, addr)
		},
	}
}

// The contract in real time, over a server of a SQLite file and a socket.
func TestStore(t *testing.T) { drivertest.Run(t, env(t)) }

func TestStore_faults(t *testing.T) {
	t.Parallel()
	drivertest.Faults(t, env(t))
}
