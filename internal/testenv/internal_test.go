package testenv

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// If another process takes the port between the check and the start, the server start is retried.
func TestBuild_clash(t *testing.T) {
	t.Parallel()
	var taken net.Listener
	var tries int
	var r *RedisServer
	own(t, func(g *group) (err error) {
		tries++
		if r, err = newRedis(g, settings{}); err != nil {
			return err
		}
		if tries == 1 {
			taken = occupy(t, r.Addr)
		}
		return r.up()
	})
	defer taken.Close()
	if tries != 2 || r.Addr == taken.Addr().String() {
		t.Errorf("%d tries; %s, and %s was taken", tries, r.Addr, taken.Addr())
	}
}

// occupy listens on an address that take found free. A process that was forked during the check of
// take holds the checked socket until it executes its program.
func occupy(t *testing.T, addr string) net.Listener {
	t.Helper()
	for end := time.Now().Add(readyLimit); ; time.Sleep(readyPoll) {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A port that is taken is detected in the log of every kind of server.
func TestBuild_clashSeen(t *testing.T) {
	t.Parallel()
	pg := Postgres(t, Shared())
	prepare := map[string]func(*testing.T, *group) *Server{
		"redis": func(t *testing.T, g *group) *Server {
			r, err := newRedis(g, settings{})
			check(t, err)
			return r.Server
		},
		"postgres": func(t *testing.T, g *group) *Server {
			p, err := newPostgres(g, settings{})
			check(t, err)
			return p.Server
		},
		"pgbouncer": func(t *testing.T, g *group) *Server {
			p, err := newPgBouncer(g, pg, PoolSession, settings{})
			check(t, err)
			return p.Server
		},
		"cluster bus": func(t *testing.T, g *group) *Server {
			r, err := newRedis(g, settings{lines: []string{"cluster-enabled yes"}})
			check(t, err)
			return r.Server
		},
	}
	for name, f := range prepare {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g group
			s := f(t, &g)
			defer s.discard()
			port := s.ports[0]
			if name == "cluster bus" {
				port += busOffset
			}
			defer occupy(t, loopback(port)).Close()
			if err := s.up(); !errors.Is(err, errClash) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A server whose command line would contain the password is not started.
func TestProcess_begin_secret(t *testing.T) {
	t.Parallel()
	p := &Process{name: "x", log: filepath.Join(t.TempDir(), "log")}
	err := p.begin(exec.Command(os.Args[0], "--pass="+Canary), os.Kill, nil)
	if err == nil || p.run != nil || len(Leaks(err.Error(), Canary)) > 0 {
		t.Errorf("%v", err)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	var b portBlocks
	defer func() {
		for _, g := range b.guards {
			g.Close()
		}
	}()
	seen := map[int]bool{}
	for range blockSize + 10 {
		port, err := b.take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < portMin || port >= portMax {
			t.Fatalf("port %d, after %v", port, seen)
		}
		seen[port] = true
	}
	if len(b.guards) != 2 {
		t.Errorf("%d blocks", len(b.guards))
	}
	// A port that is returned is used again last.
	first, _ := b.take()
	b.give(first)
	if next, _ := b.take(); next == first {
		t.Error("a port is used again at once")
	}
	// A block has one owner.
	if l, err := net.Listen("tcp", b.guards[0].Addr().String()); err == nil {
		l.Close()
		t.Error("the block can be taken twice")
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	old := time.Now().Add(-2 * orphanAge)
	make := func(name string, at time.Time) string {
		lock := filepath.Join(tmp, folderPrefix+name, lockName)
		if err := errors.Join(os.Mkdir(filepath.Dir(lock), 0o700), os.WriteFile(lock, nil, 0o600),
			os.Chtimes(lock, at, at)); err != nil {
			t.Fatal(err)
		}
		return lock
	}
	orphan, recent, used := make("orphan", old), make("recent", time.Now()), make("used", old)
	f, err := os.Open(used)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !lockFile(f) {
		t.Skip("this system has no locks on files, and sweeps nothing")
	}
	sweep(tmp)
	for name, want := range map[string]bool{orphan: false, recent: true, used: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The kernel resources of a killed test binary are released with its folder.
func TestSweep_kernel(t *testing.T) {
	if !CanDisk() || !CanNetwork() {
		check(t, &missingError{"right to mount and to make networks", "run the tests as root"})
	}
	dir := filepath.Join(t.TempDir(), folderPrefix+"orphan")
	disk, lock := filepath.Join(dir, diskName), filepath.Join(dir, lockName)
	n := &Network{}
	n.choose()
	old := time.Now().Add(-2 * orphanAge)
	if err := errors.Join(os.MkdirAll(disk, 0o700), mount(disk, 1<<20), n.find(), n.make(),
		os.WriteFile(filepath.Join(dir, networkName), []byte(n.name), 0o600), os.WriteFile(lock, nil, 0o600), os.Chtimes(lock, old, old)); err != nil {
		t.Fatal(err)
	}
	sweep(filepath.Dir(dir))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder is left:", err)
	}
	if n.run(n.ip, "netns", "del", n.name) == nil {
		t.Error("the network was left")
	}
}

func TestByVersion(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/9.6/bin"},
		{"/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/15/bin"},
	} {
		if byVersion(c[0], c[1]) >= 0 || byVersion(c[1], c[0]) <= 0 {
			t.Errorf("%s is newer than %s", c[0], c[1])
		}
	}
}

// A server without pg_basebackup has no standbys: a test that needs one is skipped, as without a
// server.
func TestPostgres_noBasebackup(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "initdb"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DISTLOCK_TEST_PATH", folder)
	var g group
	primary, err := newPostgres(&g, settings{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newPostgres(&g, settings{postgres: primary})
	var missing *missingError
	if !errors.As(err, &missing) || !strings.HasPrefix(missing.program, "pg_basebackup") {
		t.Errorf("a standby without pg_basebackup: %v", err)
	}
	for _, s := range g {
		s.discard()
	}
}

// Pause also stops the backends, which serve the open connections.
func TestPostgres_pause(t *testing.T) {
	t.Parallel()
	p := Postgres(t, Fsync())
	conn, err := dial(t.Context(), p.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &pgConn{conn, bufio.NewReader(conn)}
	if err := c.login(pgUser, "", pgUser); err != nil {
		t.Fatal(err)
	}
	p.Pause()
	conn.SetDeadline(time.Now().Add(time.Second))
	if rows, err := c.query("select 1"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a paused backend answered %v, %v", rows, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.Query(ctx, "select 1"); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server, to a new client: %v", err)
	}
	p.Resume()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if kind, _, err := c.receive(); kind != 'T' || err != nil {
		t.Errorf("after Resume: %q, %v", kind, err)
	}
}

// The shared memory that a killed PostgreSQL leaves in the kernel is removed.
func TestPostgres_sharedMemory(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ipcs"); err != nil {
		t.Skip("no ipcs to look with")
	}
	var id string
	t.Run("killed", func(t *testing.T) {
		p := Postgres(t)
		b, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		id = strings.Fields(strings.Split(string(b), "\n")[6])[1]
		p.Kill()
		if !segmentExists(t, id) {
			t.Error("it left nothing behind, so nothing is tested")
		}
	})
	if id != "" && segmentExists(t, id) {
		t.Errorf("the segment %s is still there", id)
	}
}

func segmentExists(t *testing.T, id string) bool {
	t.Helper()
	if _, err := strconv.Atoi(id); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ipcs", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == id {
			return true
		}
	}
	return false
}
