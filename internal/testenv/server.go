package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	readyLimit = 30 * time.Second // for a server to answer; a busy machine takes seconds
	readyPoll  = 10 * time.Millisecond
	// probeLimit is for one probe of the server. It is short, because another process may listen on
	// a port that was taken and answer nothing.
	probeLimit = time.Second
	clashTries = 5
)

// errClash is a port that another process took after it was found free.
var errClash = errors.New("the port was taken")

// A Server is a server that a test started, or shares.
type Server struct {
	Process
	Addr string // host:port
	URL  string // for clients, with the password if there is one

	plan   plan
	folder *folder
	ports  []int
	disk   *Disk // where its data is; nil: in folder
}

// A plan is how one server is run.
type plan struct {
	fill  func() error                // writes the configuration and the first data
	cmd   func() *exec.Cmd            // called for every start
	ready func(context.Context) error // nil when this server answers
	death os.Signal                   // ends it at once, leaving nothing in the kernel
	as    *account                    // the user that runs the server; nil: the user of the tests
	after func()                      // removes what a killed server left in the kernel; nil: nothing
}

// newServer prepares a server with a folder and one port.
func newServer(name string) (*Server, error) {
	f, err := newFolder()
	if err != nil {
		return nil, err
	}
	s := &Server{folder: f}
	s.name, s.log = name, filepath.Join(f.path, "log")
	port, err := s.port()
	if err != nil {
		return nil, errors.Join(err, s.discard())
	}
	s.Addr = loopback(port)
	return s, nil
}

// port takes one more port, which the server keeps until it is discarded.
func (s *Server) port() (int, error) {
	port, err := ports.take()
	if err == nil {
		s.ports = append(s.ports, port)
	}
	return port, err
}

// path returns the path of a file in the server's folder.
func (s *Server) path(elem ...string) string {
	return filepath.Join(append([]string{s.folder.path}, elem...)...)
}

// data returns the path of the folder that Restart keeps and RestartEmpty creates again.
func (s *Server) data() string {
	if s.disk != nil {
		return filepath.Join(s.disk.Path, filepath.Base(s.folder.path))
	}
	return s.path("data")
}

// up fills the data folder, starts the server and waits until it is ready.
func (s *Server) up() error {
	if err := s.spawn(true); err != nil {
		return err
	}
	return s.await()
}

// spawn starts the server. It is called with mu held, or before other goroutines know the server.
func (s *Server) spawn(fill bool) error {
	if fill {
		if err := os.RemoveAll(s.data()); err != nil {
			return err
		}
		if err := os.Mkdir(s.data(), 0o700); err != nil {
			return err
		}
		if err := s.plan.as.own(s.data()); err != nil {
			return err
		}
		if err := s.plan.fill(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return s.begin(s.plan.cmd(), s.plan.death, s.plan.as)
}

// await waits until the server is ready. The error shows the end of the log.
func (s *Server) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for {
		err := probe(ctx, s.plan.ready)
		if err == nil && !s.run.ended() {
			return nil
		}
		select {
		case <-s.run.done:
			return s.failure(errors.New("it ended: " + s.run.cmd.ProcessState.String()))
		case <-ctx.Done():
			return s.failure(fmt.Errorf("not ready after %v: %w", readyLimit, err))
		case <-time.After(readyPoll):
		}
	}
}

func probe(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	return ready(ctx)
}

// failure adds the log to err, and detects a port that was taken.
func (s *Server) failure(err error) error {
	if strings.Contains(strings.ToLower(s.logSince(s.mark)), "address already in use") {
		err = fmt.Errorf("%w: %w", errClash, err)
	}
	return fmt.Errorf("%s did not start: %w; the end of its log:\n%s", s.name, err, s.Log())
}

// Restart starts the server again on the same port with the same data, and returns when it
// answers. A server that still runs is stopped first.
func (s *Server) Restart() { s.again("restart", false) }

// RestartEmpty is Restart with the data of the first start: none.
func (s *Server) RestartEmpty() { s.again("restart", true) }

func (s *Server) again(what string, empty bool) {
	s.tb.Helper()
	s.control(what, func(r *run) error {
		if err := s.end(r, s.stop); err != nil {
			return err
		}
		// The port is reserved among tests, so another process uses it only for a short time.
		var err error
		for range clashTries {
			if err = s.spawn(empty); err == nil {
				err = s.await()
			}
			if !errors.Is(err, errClash) {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return err
	})
}

// discard ends the server and removes its folder.
func (s *Server) discard() error {
	err := s.close(cmp.Or(s.plan.death, os.Kill))
	if s.plan.after != nil {
		s.plan.after()
	}
	for _, p := range s.ports {
		ports.give(p)
	}
	s.ports = nil
	return errors.Join(err, s.folder.remove())
}

// adopt ties the server to the test: it ends with the test.
func (s *Server) adopt(t testing.TB) {
	s.tb = t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s on %s:\n%s", s.name, s.Addr, s.Log())
		}
		if err := s.discard(); err != nil {
			t.Errorf("testenv: %s: %v", s.name, err)
		}
	})
}

// A group collects servers that are built together.
type group []*Server

// build calls f with a group, to which f adds every server that it makes. If a port was taken
// meanwhile, build discards all servers and calls f again. If build fails, no server is left.
func build(f func(*group) error) (group, error) {
	var err error
	for range clashTries {
		var g group
		if err = f(&g); err == nil {
			return g, nil
		}
		for _, s := range g {
			err = errors.Join(err, s.discard())
		}
		if !errors.Is(err, errClash) {
			break
		}
	}
	return nil, err
}

// add creates a server in the group.
func (g *group) add(name string) (*Server, error) {
	s, err := newServer(name)
	if err == nil {
		*g = append(*g, s)
	}
	return s, err
}

// own builds servers for a test.
func own(t testing.TB, f func(*group) error) {
	t.Helper()
	g, err := build(f)
	check(t, err)
	for _, s := range g {
		s.adopt(t)
	}
}

// await polls until done returns nil, and returns the last error if it never does.
func await(what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not after %v: %w", what, readyLimit, err)
		case <-time.After(readyPoll):
		}
	}
}
